"""Training: proximal policy optimisation on action chunks, also on chunks of older weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

import ebrl
from ebrl.backends.protocols import ActorCritic, Policy
from ebrl.errors import UsageError
from ebrl.graph.items import Array, Batch, Trajectory, Weights
from ebrl.graph.stage import training
from ebrl.runtime.reporting import State
from ebrl.stages.ppo_loss import LossSettings, PpoBatch, gather, ppo_loss
from ebrl.stages.rollout import Rollout


@training
def train_ppo(
    policy: Policy,
    trajectories: Batch[Trajectory],
    state: State,
    *,
    learning_rate: float = 3e-4,
    decay_iterations: int | None = None,
    gamma: float = 0.99,
    gae_lambda: float = 0.95,
    epochs: int = 8,
    minibatch: int = 128,
    clip: float = 0.2,
    value_coefficient: float = 0.5,
    entropy_coefficient: float = 0.0,
    max_grad_norm: float = 0.5,
    normalize_advantages: bool = True,
    reward_scale: float = 1.0,
    target_kl: float | None = None,
    max_importance_weight: float = 2.0,
    max_chunk_staleness: int | None = None,
    seed: int = 0,
) -> Weights:
    """One PPO iteration; publishes the next version of the weights.

    learning_rate: of Adam; with `decay_iterations` it falls linearly to a tenth over that many iterations.
    gamma: discount per environment step; gae_lambda: per chunk.
    minibatch: chunks of one optimiser step; their order depends on `seed` and the version alone.
    clip: of the ratio between the new and the proximal policy; the proximal policy is that of the weights
        before this iteration. Chunks of older weights are weighted by their density under the proximal
        policy over that under the weights that generated them, at most `max_importance_weight` (the
        decoupled objective). On fresh chunks this is ordinary PPO.
    value_coefficient, entropy_coefficient: factors of the value loss and of the entropy bonus.
    max_grad_norm: gradients are scaled down to this norm.
    reward_scale: factor on rewards; choose it such that returns are of the order of 1 to 100.
    target_kl: end the epochs early once the policy has moved this far (mean KL, in nats).
    max_chunk_staleness: leave chunks older than this many versions out of the loss; None keeps all.

    Reports loss, policy_loss, value_loss, kl, clip_fraction, entropy, explained_variance, staleness,
    importance, grad_norm, learning_rate, and dropped_chunks. Raises FloatingPointError when the loss is
    no number, ValueError when the data is not.
    """
    if not isinstance(policy, ActorCritic):
        raise UsageError(
            f"{type(policy).__name__} cannot be trained by PPO",
            where="train_ppo",
            hint="it needs the methods of ebrl.backends.protocols.ActorCritic",
        )
    import torch

    version = int(state.get("version", 0))
    rate = learning_rate * _decay(version, decay_iterations)
    optimizer = state.keep("optimizer", lambda: torch.optim.Adam(policy.parameters(), lr=rate, eps=1e-5))
    for group in optimizer.param_groups:
        group["lr"] = rate

    rollout = Rollout.of(trajectories, policy.observation_keys)
    staleness = version - rollout.versions
    kept = np.ones(len(rollout), bool) if max_chunk_staleness is None else staleness <= max_chunk_staleness
    batch = _prepare(policy, rollout, staleness, gamma, gae_lambda, reward_scale, normalize_advantages, kept)
    settings = LossSettings(
        clip=clip,
        value_coefficient=value_coefficient,
        entropy_coefficient=entropy_coefficient,
        max_importance_weight=max_importance_weight,
    )
    optimisation = _Optimisation(policy, optimizer, settings, max_grad_norm, target_kl)
    metrics = optimisation.run(batch, np.flatnonzero(kept), epochs, minibatch, np.random.default_rng((seed, version)))

    policy.update_normalization(batch.observations)
    state["version"] = version + 1
    ebrl.report(
        **metrics,
        explained_variance=_explained_variance(batch.values.numpy()[kept], batch.returns.numpy()[kept]),
        staleness=float(staleness.mean()),
        dropped_chunks=float((~kept).sum()),
        learning_rate=rate,
    )
    return Weights.of(version + 1, policy.weights())


def _prepare(
    policy: ActorCritic,
    rollout: Rollout,
    staleness: Any,
    gamma: float,
    gae_lambda: float,
    reward_scale: float,
    normalize: bool,
    kept: Any,
) -> PpoBatch:
    """Values by the current critic, advantages, and log-probabilities of the proximal policy."""
    import torch

    observations, before = _columns(rollout.observations), _columns(rollout.before_chunks())
    executed = torch.from_numpy(rollout.executed)
    behaviour = gather(torch.from_numpy(rollout.log_probs), executed)
    proximal = behaviour
    actions = torch.from_numpy(rollout.actions)
    with torch.no_grad():
        values = policy.values(observations).double().numpy()
        stale = torch.from_numpy(staleness > 0)
        if stale.any():
            log_probs, _, _ = policy.evaluate(before, actions)
            # A fresh chunk was generated by the proximal policy: its two densities are one by definition.
            proximal = torch.where(stale, gather(log_probs, executed), behaviour)
    advantage = rollout.advantages(values, gamma=gamma, gae_lambda=gae_lambda, reward_scale=reward_scale)
    start = values[rollout.rows]
    returns = advantage + start
    if normalize and kept.sum() > 1:
        advantage = (advantage - advantage[kept].mean()) / (advantage[kept].std() + 1e-8)
    return PpoBatch(
        observations=before,
        actions=actions,
        executed=executed,
        behaviour=behaviour,
        proximal=proximal,
        advantages=torch.from_numpy(advantage.astype(np.float32)),
        returns=torch.from_numpy(returns.astype(np.float32)),
        values=torch.from_numpy(start.astype(np.float32)),
    )


def _columns(observations: Mapping[str, Array]) -> dict[str, Any]:
    """As torch tensors; text, of which there are none, as it is."""
    import torch

    return {key: array if array.dtype.kind == "U" else torch.from_numpy(array) for key, array in observations.items()}


@attrs.define
class _Optimisation:
    policy: ActorCritic
    optimizer: Any
    settings: LossSettings
    max_grad_norm: float
    target_kl: float | None

    def run(
        self, batch: PpoBatch, chunks: Any, epochs: int, minibatch: int, shuffle: np.random.Generator
    ) -> dict[str, float]:
        """Optimise over the given chunks; metrics are means over the minibatches of the last epoch."""
        parameters = self.policy.parameters()
        metrics: dict[str, float] = {}
        for _ in range(epochs if len(chunks) else 0):
            steps = []
            for part in np.array_split(shuffle.permutation(chunks), max(1, round(len(chunks) / minibatch))):
                steps.append(self._step(batch.rows(part), parameters))
            metrics = {name: float(np.mean([step[name] for step in steps])) for name in steps[0]}
            if self.target_kl is not None and metrics["kl"] > self.target_kl:
                break
        return metrics

    def _step(self, batch: PpoBatch, parameters: list[Any]) -> dict[str, float]:
        import torch

        loss, metrics = ppo_loss(self.policy, batch, self.settings)
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the PPO loss is {loss.item()}: {metrics}")
        self.optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, self.max_grad_norm)
        self.optimizer.step()
        return {name: float(value) for name, value in metrics.items()} | {"grad_norm": float(norm)}


def _decay(version: int, decay_iterations: int | None) -> float:
    return 1.0 if decay_iterations is None else max(0.1, 1.0 - 0.9 * version / decay_iterations)


def _explained_variance(values: Any, returns: Any) -> float:
    """1: the critic knows the returns; 0: it knows their mean at most."""
    spread = float(np.var(returns)) if len(returns) else 0.0
    return 1.0 - float(np.var(returns - values)) / spread if spread > 0 else 0.0
