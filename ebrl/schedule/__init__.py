"""Who runs next: dispatcher, batcher, admission, barriers. Pure: events and a clock in, decisions out."""
