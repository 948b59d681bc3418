"""What to install when a simulator fails: from what it said to the way out. Pure."""

from __future__ import annotations

import re

_REMEDIES: tuple[tuple[str, str], ...] = (
    (r"libOSMesa|osmesa", "apt-get install libosmesa6, or choose another renderer: MUJOCO_GL=egl"),
    (
        r"libEGL|eglGetDisplay|eglInitialize|EGL_NOT_INITIALIZED|eglQueryString|PLATFORM_DEVICE|EGLError|MUJOCO_GL",
        "apt-get install libegl1 libegl-mesa0 libgl1-mesa-dri (software rendering on the CPU), and set MUJOCO_GL=egl",
    ),
    (
        r"libvulkan|vkCreateInstance|vk::|VK_ERROR|[Vv]ulkan|ErrorIncompatibleDriver|rendering device",
        "apt-get install libvulkan1 mesa-vulkan-drivers, Mesa 25 or later (on Debian 12 from bookworm-backports)",
    ),
    (r"libGL\.so|libGLdispatch|libGLX", "apt-get install libgl1 libglx-mesa0"),
    (r"libglib-2|libgthread", "apt-get install libglib2.0-0"),
    (r"libX11|libXext|libSM|cannot open display|DISPLAY|GLFWError", "render without a display: MUJOCO_GL=egl"),
    (r"[Ll]icen[cs]e|EULA", "read and accept the licence of the simulator's assets as its documentation says"),
    (
        r"keyboard input",
        "the simulator asks a question when it starts for the first time: answer it by its documentation, once",
    ),
    (
        r"[Aa]sset|\.(xml|obj|stl|msh|usd|urdf|bddl|hdf5)\b",
        "a file of the simulator's assets is missing: fetch the assets as its documentation says",
    ),
    (r"error while loading|cannot open shared object file", "install the system package that provides this library"),
    (r"ENOSPC|No space left", "free some space on the disk"),
)


def remedy(said: str) -> str:
    """The way out, given the message and traceback of a simulator; empty where none is known."""
    return next((way for pattern, way in _REMEDIES if re.search(pattern, said)), "")
