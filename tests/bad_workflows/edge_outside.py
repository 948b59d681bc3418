import ebrl

ACTIONS = ebrl.stream(ebrl.ActionChunk)
