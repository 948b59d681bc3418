"""Torques of robosuite's operational-space controller, compiled: one call per physics step.

The law is that of Khatib (1987), as robosuite's `OperationalSpaceController` computes it with a null-space
term towards the initial joints. Here the matrices that it inverts are factorised instead: the mass matrix
and the two or three inertias in operational space are symmetric and positive definite.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from ebrl.graph.items import Array

_NULLSPACE_KP = 10.0  # robosuite's gain of the joints towards their initial pose


@numba.njit(cache=True)
def torques(
    out: Array,
    low: Array,
    high: Array,
    actuators: Array,
    dofs: Array,
    coordinates: Array,
    qpos: Array,
    qvel: Array,
    bias: Array,
    mass: Array,
    jacobian: Array,
    position: Array,
    rotation: Array,
    goal_position: Array,
    goal_rotation: Array,
    kp: Array,
    kd: Array,
    initial: Array,
    uncoupled: bool,
) -> bool:
    """Write the torques of one arm of n joints into `out[actuators]`, clipped to `low` and `high` [n].

    qpos, qvel, bias: the machine's generalised positions, velocities and bias forces; `coordinates` and
    `dofs` [n] are the arm's places in them. mass [nv, nv] and jacobian [6, nv], position rows first, are of
    the whole machine. position [3], rotation [9], goal_position [3], goal_rotation [3, 3]: of the end
    effector, in world coordinates. kp, kd [6]; initial [n]. False, with nothing written, where a matrix is
    singular.
    """
    n = len(dofs)
    own_mass, own = np.empty((n, n)), np.empty((6, n))
    for i in range(n):
        for j in range(n):
            own_mass[i, j] = mass[dofs[i], dofs[j]]
        for row in range(6):
            own[row, i] = jacobian[row, dofs[i]]
    wrench = np.empty(6)
    for row in range(6):
        velocity = 0.0
        for i in range(len(qvel)):
            velocity += jacobian[row, i] * qvel[i]
        wrench[row] = -kd[row] * velocity
    for axis in range(3):
        wrench[axis] += kp[axis] * (goal_position[axis] - position[axis])
        # Half the sum of the cross products of present and wanted axes.
        a, b = (axis + 1) % 3, (axis + 2) % 3
        error = 0.0
        for column in range(3):
            error += rotation[3 * a + column] * goal_rotation[b, column]
            error -= rotation[3 * b + column] * goal_rotation[a, column]
        wrench[3 + axis] += kp[3 + axis] * 0.5 * error

    wanted = np.empty(n)
    kv = 2.0 * math.sqrt(_NULLSPACE_KP)
    for i in range(n):
        wanted[i] = _NULLSPACE_KP * (initial[i] - qpos[coordinates[i]]) - kv * qvel[dofs[i]]

    factor = own_mass.copy()
    if not _factorise(factor):
        return False
    mobility = np.zeros((6, 6))  # J M^-1 J^T
    column = np.empty(n)
    for j in range(6):
        for i in range(n):
            column[i] = own[j, i]
        _solve(factor, column)
        for row in range(6):
            for i in range(n):
                mobility[row, j] += own[row, i] * column[i]

    motion = np.zeros(6)
    for row in range(6):
        for i in range(n):
            motion[row] += own[row, i] * wanted[i]
    full = mobility.copy()
    if not _factorise(full):
        return False
    _solve(full, motion)
    if uncoupled:
        for begin in (0, 3):
            block = mobility[begin : begin + 3, begin : begin + 3].copy()
            if not _factorise(block):
                return False
            _solve(block, wrench[begin : begin + 3])
    else:
        _solve(full, wrench)

    for i in range(n):
        torque = bias[dofs[i]]
        for row in range(6):
            torque += own[row, i] * (wrench[row] - motion[row])
        for j in range(n):
            torque += own_mass[i, j] * wanted[j]
        out[actuators[i]] = min(max(torque, low[i]), high[i])
    return True


@numba.njit(cache=True)
def _factorise(matrix: Array) -> bool:
    """Cholesky factor into the lower triangle; False where the matrix is not clearly positive definite."""
    for j in range(len(matrix)):
        pivot = matrix[j, j]
        least = 1e-12 * pivot
        for k in range(j):
            pivot -= matrix[j, k] ** 2
        if not pivot > least:
            return False
        root = math.sqrt(pivot)
        matrix[j, j] = root
        for i in range(j + 1, len(matrix)):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = rest / root
    return True


@numba.njit(cache=True)
def _solve(factor: Array, right: Array) -> None:
    """Replace `right` by the solution, for a factor of `_factorise`."""
    size = len(right)
    for i in range(size):
        for k in range(i):
            right[i] -= factor[i, k] * right[k]
        right[i] /= factor[i, i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            right[i] -= factor[k, i] * right[k]
        right[i] /= factor[i, i]
