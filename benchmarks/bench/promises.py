"""The figures that docs/performance.md promises, by the part that measures them: {part: {id: limit}}. Programs know their own
limits; what is here names those figures whose absence is a failure, and counts where a program's own limit is laxer."""

import figures

DTYPES = ["fp32", "fp32_to_bf16", "fp32_to_fp16", "bf16_to_bf16", "fp16_to_fp16"]
COLLECTIVES = {
    "reduce_scatter.float32.25MiB": {"shm_to_gloo": 0.5, "shm_to_ring": 0.6, "gloo_to_ring": 0.6, "shm_to_copies": 2.0},
    "reduce_scatter.bfloat16.25MiB": {"shm_to_gloo": 0.5, "shm_to_copies": 2.0},
    "reduce_scatter_and_all_gather.float32.25MiB": {"shm_to_ring": 1.0, "gloo_to_ring": 1.0},
    "all_gather.float32.25MiB": {"shm_to_gloo": 0.5},
    "all_gather.bfloat16.25MiB": {"shm_to_gloo": 0.5},
}
PEERS = {"peers_minigpt": ("minigpt", 1), "peers_minigpt_a4": ("minigpt", 4), "peers_mlp": ("mlp", 1)}


def kernels():
    torchs = {"torch_adamw": 0.25, "torch_fused_adamw": 1.0, "cast_fused_cast": 1 / 1.5}
    found = {f"kernels.{name}{suffix}": limit for suffix in (".as_shipped", "") for name, limit in torchs.items()}
    found.update({f"kernels.adamw.{dtype}.{threads}t": 1 / 0.9 for dtype in DTYPES for threads in (1, 2)})
    found.update({f"kernels.norm.{name}": 1.08 for name in ("fp32", "fp32.accumulate", "bf16", "bf16.accumulate")})
    return found


def checkpoint():
    limits = {"write": 1.15, "stall": 1.5, "load": 1.15}
    return {f"checkpoint.{name}.{place}": limit for place in ("disk", "tmpfs") for name, limit in limits.items()}


def of_part(part):
    """{id: limit}; empty for parts that promise nothing."""
    if part in PEERS:
        return {name: limit for name, *_, limit in figures.peers_rules(*PEERS[part])}
    return {
        "kernels": kernels(),
        "update": {"kernels.cast_cpu_adam_cast": figures.UPDATE_LIMIT},
        "optim": {"step.many_parameters.n1": 1.5, "step.many_parameters.n2": 1.5, "step.observed": 1.01, "step.exported": 1.01},
        "collectives": {f"{job}.{pair}.n{ranks}": limit for ranks in (2, 4) for job, pairs in COLLECTIVES.items()
                        for pair, limit in pairs.items()},
        "checkpoint": checkpoint(),
        "offload": {"offload.step.fp32": 1 / 0.7},
        "parameters": {"model.largest_error": figures.MODEL_LIMIT},
    }.get(part, {})
