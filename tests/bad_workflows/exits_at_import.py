import sys

import ebrl


@ebrl.workflow
def flow(): ...


sys.exit(3)
