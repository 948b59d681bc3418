"""Images of MuJoCo cameras without a display, through EGL or OSMesa. Standard library, numpy and mujoco only."""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ebrl.backends.protocols import Space
from ebrl.errors import UsageError, did_you_mean
from ebrl.graph.items import Array

PACKAGES = "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri (EGL), or libosmesa6 (OSMesa)"
"""The way out where no image can be drawn: Debian's names."""

_ASKED = os.environ.get("MUJOCO_GL", "").lower().strip()
# Read at import: robosuite writes its own choice there.


class MujocoCameras:
    """Draws cameras of a model as uint8 [height, width, 3], upright; opens its renderer with the first image.

    names: the cameras that `images` draws, one name or several.
    size: height and width of their images, in pixels.
    fast: without multisampling, shadows and reflections: two to four times as fast, and visibly plainer
        than the images that published policies were trained on.
    hidden: groups of geometries that are not drawn.

    All images must be drawn in the thread that drew the first: in another one OpenGL gives wrong ones, silently.
    A process that has drawn (`drawn`) must not fork.

    Raises UsageError where this machine has no library to draw with (see `require`).
    """

    def __init__(
        self,
        names: str | Sequence[str] = (),
        size: Sequence[int] = (128, 128),
        *,
        fast: bool = False,
        hidden: Sequence[int] = (),
    ) -> None:
        self.names = (names,) if isinstance(names, str) else tuple(names)
        if not _is_size(size):
            raise UsageError(
                f"image_size is {size!r}", hint="give height and width in pixels, for example image_size=(128,128)"
            )
        self.size = (int(size[0]), int(size[1]))
        self.drawn = False
        self._fast, self._hidden = fast, tuple(hidden)
        self._model: Any = None
        self._context: Any = None
        self._scene: Any = None
        self._target: Any = None
        if self.names:
            require()

    @property
    def spaces(self) -> dict[str, Space]:
        """What `images` gives, by name of the camera."""
        return {name: Space(shape=(*self.size, 3), dtype="uint8", low=0.0, high=255.0) for name in self.names}

    def check(self, simulator: str, model: Any) -> None:
        """Raise UsageError for a camera that `model` does not have."""
        known = [model.camera(index).name for index in range(model.ncam)]
        for name in self.names:
            if name not in known:
                raise UsageError(f"{simulator} has no camera {name!r}", hint=did_you_mean(name, known))

    def images(self, model: Any, data: Any) -> dict[str, Array]:
        """The cameras at the state of `data`; both are mujoco's own objects."""
        return {name: self.image(model, data, name) for name in self.names}

    def view(self, model: Any, data: Any, otherwise: str) -> Array:
        """The first of the cameras, or `otherwise` where none was chosen, for people: uint8 [height, width, 3]."""
        if self.names:
            return self.image(model, data, self.names[0])
        return self.image(model, data, otherwise, (256, 256))

    def image(self, model: Any, data: Any, camera: str, size: Sequence[int] | None = None) -> Array:
        """One camera at the state of `data`, in another size if told so."""
        import mujoco

        height, width = self.size if size is None else size
        self._open(model, height, width)
        view = mujoco.MjvCamera()
        number = model.camera(camera).id
        view.type, view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED, number
        options = mujoco.MjvOption()
        options.geomgroup[list(self._hidden)] = 0
        area = mujoco.MjrRect(0, 0, width, height)
        shown = np.empty((height, width, 3), np.uint8)
        self._context.make_current()
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(model, data, options, mujoco.MjvPerturb(), view, everything, self._scene)
        mujoco.mjr_render(area, self._scene, self._target)
        mujoco.mjr_readPixels(shown, None, area, self._target)
        # OpenGL counts rows from below; some of Meta-World's cameras hang upside down (up is column 1 of cam_xmat).
        turned = model.cam_bodyid[number] == 0 and data.cam_xmat[number][7] < -0.1
        return np.ascontiguousarray(shown[:, ::-1] if turned else shown[::-1])

    def close(self) -> None:
        if self._context is None:
            return
        self._context.make_current()
        self._target.free()
        self._context.free()
        self._model = self._context = self._scene = self._target = None

    def _open(self, model: Any, height: int, width: int) -> None:
        """A renderer belongs to one model object (a hard reset makes a new one) and has a largest size."""
        import mujoco

        whole = model.vis.global_
        if self._model is model and height <= whole.offheight and width <= whole.offwidth:
            return
        self.close()
        whole.offheight, whole.offwidth = (max(side) for side in zip((height, width), self.size))  # noqa: B905
        if self._fast:
            model.vis.quality.offsamples = 0
        self._context = _gl_context(whole.offheight, whole.offwidth)
        if not self.drawn:
            # Before mujoco ends EGL, which it registered just now: freed later, the context complains.
            atexit.register(_close, weakref.ref(self))
            self.drawn = True
        self._context.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=10_000)
        if self._fast:
            self._scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
        self._target = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._target)
        self._model = model


def _close(cameras: Callable[[], MujocoCameras | None]) -> None:
    if (alive := cameras()) is not None:
        alive.close()


def require() -> str:
    """How images are drawn here, ``egl`` or ``osmesa``: as MUJOCO_GL asks, else what this machine has.

    Raises UsageError that names the missing packages.
    """
    # OpenGL's bindings are loaded for one of them and keep to it.
    asked = os.environ.get("PYOPENGL_PLATFORM", "").lower() or _ASKED
    found = [name for name, present in (("egl", _has_egl), ("osmesa", _has_osmesa)) if present()]
    missing = "neither EGL with a device nor OSMesa"
    if asked in ("egl", "osmesa"):
        found = [name for name in found if name == asked]
        missing = {"egl": "no EGL with a device", "osmesa": "no OSMesa"}[asked]
    if not found:
        raise UsageError(f"images cannot be drawn: this machine has {missing}", hint=PACKAGES)
    return found[0]


def _gl_context(height: int, width: int) -> Any:
    kind = require()
    try:
        if kind == "egl":
            from mujoco.egl import GLContext
        else:
            from mujoco.osmesa import GLContext
        return GLContext(width, height)
    except Exception as cause:
        raise UsageError(
            f"images cannot be drawn: {kind} does not start", detail=f"{type(cause).__name__}: {cause}", hint=PACKAGES
        ) from cause


def _has_egl() -> bool:
    """Whether EGL is there and lists a device: the library alone draws nothing."""
    try:
        egl = ctypes.CDLL("libEGL.so.1")
    except OSError:
        return False
    egl.eglGetProcAddress.restype = ctypes.c_void_p
    address = egl.eglGetProcAddress(b"eglQueryDevicesEXT")
    if not address:
        return False
    query = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))(address)
    count = ctypes.c_int(0)
    return bool(query(0, None, ctypes.byref(count))) and count.value > 0


def _has_osmesa() -> bool:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def _is_size(size: Any) -> bool:
    return (
        isinstance(size, (tuple, list))
        and len(size) == 2
        and all(isinstance(side, (int, np.integer)) and side > 0 for side in size)
    )
