"""Steps as the work grows: which runs are made, and what they cost in memory."""

MEMORY_SHARE = 0.85  # of what is free
MODEL_WIDTH = 2048  # of the runs that the model of a step is fitted on and has to predict: layers of another width differ in speed


def mlp(hidden, depth=3):
    return ["--workload", "mlp", "--hidden", str(hidden), "--depth", str(depth)]


def mlp_parameters(hidden, depth):
    return hidden * (1280 + 1 + depth * (hidden + 1)) + (hidden + 1) * 1024


def bytes_needed(parameters, ranks):
    """Stage 2, fp32: every rank's parameters, and sums, first and second moments once among all. What a backward pass adds is a
    few gradients of one layer: the rest of the memory."""
    return parameters * (4 * ranks + 12)


def run_of(series, x, flags, ranks=2, accumulate=1, threads=False, parameters=0):
    return {"series": series, "x": x, "flags": [*flags, "--accumulate", str(accumulate)], "ranks": ranks, "accumulate": accumulate,
            "threads": threads, "needs_bytes": bytes_needed(parameters, ranks)}


def parameters(quick):
    """Wider layers up to 2048, then more of them: models grow so, and one layer's gradient stays small beside the rest."""
    shapes = [(1024, 3), (2048, 3), (2048, 12)] if quick else [(256, 3), (512, 3), (1024, 3), (2048, 1), (2048, 3), (2048, 6), (2048, 12),
                                                               (2048, 40), (2048, 112), (2048, 224)]
    return [run_of(f"{ranks} rank" + "s" * (ranks > 1), None, mlp(*shape), ranks, parameters=mlp_parameters(*shape))
            for shape in shapes for ranks in (1, 2)]


def ranks(quick):
    return [run_of("threads" if threads else "processes", n, mlp(2048), n, threads=threads)
            for n in ((1, 2, 4) if quick else (1, 2, 4, 8)) for threads in (False, True)]


def buckets(quick):
    jobs = {"MiniGPT": ["--workload", "minigpt"], "MLP, 59.8 M": mlp(4096)}
    return [run_of(name, mib, [*flags, "--bucket-mib", str(mib)])
            for mib in ((1, 4, 25) if quick else (1, 2, 5, 10, 25, 50, 100)) for name, flags in jobs.items()]


def accumulation(quick):
    jobs = {f"MiniGPT, stage {stage}": ["--workload", "minigpt", "--stage", str(stage)] for stage in (1, 2)}
    jobs["MLP, 17.3 M, stage 2"] = mlp(2048)
    return [run_of(name, a, flags, accumulate=a) for a in ((1, 4) if quick else (1, 2, 4, 8, 16)) for name, flags in jobs.items()]


def threads(quick):
    jobs = {"MiniGPT": ["--workload", "minigpt"], "MLP, 59.8 M": mlp(4096)}
    return [run_of(name, n, [*flags, "--torch-threads", str(n)], ranks=1) for n in (1, 2) for name, flags in jobs.items()]


PARTS = {"parameters": parameters, "ranks": ranks, "buckets": buckets, "accumulation": accumulation, "threads": threads}
TITLES = {  # title, label of the x axis
    "parameters": ("Step time and parameters (MLP, stage 2)", "parameters"),
    "ranks": ("Step time and ranks on {cores} cores (MLP, 17.3 M parameters)", "ranks"),
    "buckets": ("Step time and bucket size (2 ranks, stage 2)", "MiB"),
    "accumulation": ("Step time and accumulation (2 ranks)", "micro-batches a rank"),
    "threads": ("Step time and threads of LibTorch (1 rank)", "threads"),
}
