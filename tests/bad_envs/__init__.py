"""One tiny simulator per fault. Environment processes import this package from the folder `tests`."""
