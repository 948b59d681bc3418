import ebrl


def flow(): ...
