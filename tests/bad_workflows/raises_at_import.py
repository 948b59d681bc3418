import ebrl


def configured(value):
    return int(value)


RATE = configured("fast")


@ebrl.workflow
def flow(): ...
