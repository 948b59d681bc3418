from omnigibson_scene import Gm

gm = Gm()
