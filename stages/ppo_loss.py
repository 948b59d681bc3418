"""The clipped PPO objective on chunks, decoupled from the policy that generated the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ebrl.backends.protocols import ActorCritic

if TYPE_CHECKING:
    from torch import Tensor


@attrs.define(frozen=True, kw_only=True)
class LossSettings:
    """See `train_ppo`."""

    clip: float
    value_coefficient: float
    entropy_coefficient: float
    max_importance_weight: float


@attrs.define(frozen=True, kw_only=True, eq=False)
class PpoBatch:
    """N chunks as torch tensors."""

    observations: dict[str, Any]
    """Each [N, ...]; text, of which there are no tensors, as an array of str."""
    actions: Any
    """[N, K, *shape]"""
    executed: Any
    """[N, K] bool"""
    behaviour: Any
    """[N] log-density of the chunk under the weights that generated it."""
    proximal: Any
    """[N] the same under the weights before this iteration."""
    advantages: Any
    """[N]"""
    returns: Any
    """[N] targets of the critic."""
    values: Any
    """[N] the critic's estimates before this iteration."""

    def rows(self, index: Any) -> PpoBatch:
        import torch

        at = torch.from_numpy(index)
        return PpoBatch(
            observations={
                key: column[at] if isinstance(column, torch.Tensor) else column[index]
                for key, column in self.observations.items()
            },
            **{
                field.name: getattr(self, field.name)[at]
                for field in attrs.fields(PpoBatch)
                if field.name != "observations"
            },
        )


def gather(elementwise: Tensor, executed: Tensor) -> Tensor:
    """Sum [N, K, A] over the executed actions of each chunk: [N]."""
    return (elementwise.sum(dim=-1) * executed).sum(dim=-1)


def ppo_loss(policy: ActorCritic, batch: PpoBatch, settings: LossSettings) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of a batch, and what to report about it.

    With r the new over the proximal density and w the proximal over the behaviour density of a chunk,
    the policy loss is ``-mean(w * min(r A, clip(r) A))``.
    """
    import torch

    log_probs, entropy, values = policy.evaluate(batch.observations, batch.actions)
    log_ratio = gather(log_probs, batch.executed) - batch.proximal
    ratio = log_ratio.exp()
    importance = (batch.proximal - batch.behaviour).exp().clamp(max=settings.max_importance_weight)
    clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
    gain = torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
    policy_loss = -(importance * gain).mean()
    value_loss = (values - batch.returns).square().mean()
    mean_entropy = gather(entropy, batch.executed).mean()
    loss = policy_loss + settings.value_coefficient * value_loss - settings.entropy_coefficient * mean_entropy
    with torch.no_grad():
        metrics = {
            "loss": loss.detach(),
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            # Low-variance and never negative, where the plain mean of -log r is neither.
            "kl": (ratio - 1.0 - log_ratio).mean(),
            "clip_fraction": ((ratio - 1.0).abs() > settings.clip).float().mean(),
            "entropy": mean_entropy.detach(),
            "importance": importance.mean(),
        }
    return loss, metrics
