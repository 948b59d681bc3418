import ebrl


@ebrl.workflow
def first(): ...


@ebrl.workflow
def second(): ...
