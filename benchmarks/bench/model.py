"""Step time from what it moves: fitted on small runs, checked on larger ones, carried to other machines.

    t(P, N, A) = overhead + A * (work * P + wire * P * (N - 1) / N) + update * P / N + gather * P * (N - 1) / N
                 + alpha * (A + 1) * buckets * (N - 1)

P: parameters, N: ranks, A: micro-batches of each rank. `work` is forward and backward, `wire` a reduce-scatter's and
`gather` an all-gather's seconds a parameter, `alpha` what every message costs, `update` AdamW's. On one host all ranks share
the cores: with more ranks than cores, everything a rank calculates takes max(1, N / cores) times as long.
"""

CACHED_PARAMETERS = 17e6  # with 16 bytes of state each, what the largest last-level caches hold: such runs follow other laws
FIT_PARAMETERS, FIT_RANKS, FIT_ACCUMULATE = 200e6, 4, 4  # of the largest runs that a fit sees


def split(runs):
    """(those that a fit may see, those that it has to predict); where nothing is larger than FIT_PARAMETERS, the largest.
    Those that caches hold are neither."""
    runs = [run for run in runs if run["parameters"] >= CACHED_PARAMETERS]
    largest = max((run["parameters"] for run in runs), default=0)
    below = FIT_PARAMETERS if largest > FIT_PARAMETERS else largest - 1
    small = [run for run in runs if run["parameters"] <= below and run["ranks"] <= FIT_RANKS and run["accumulate"] <= FIT_ACCUMULATE]
    return small, [run for run in runs if run not in small]


def least_squares(rows, values):
    """Non-negative weights of the columns, each row counted by its relative error: plain normal equations, and a column
    whose weight comes out negative is left out."""
    columns = list(range(len(rows[0])))
    while True:
        weights = solve([[row[c] / value for c in columns] for row, value in zip(rows, values)])
        worst = min(range(len(columns)), key=lambda i: weights[i])
        if weights[worst] >= 0:
            full = [0.0] * len(rows[0])
            for column, weight in zip(columns, weights):
                full[column] = weight
            return full
        del columns[worst]


def solve(rows):
    """Weights w that minimise sum((row . w - 1)^2)."""
    size = len(rows[0])
    scale = [max(abs(row[c]) for row in rows) or 1.0 for c in range(size)]
    rows = [[value / scale[c] for c, value in enumerate(row)] for row in rows]
    matrix = [[sum(row[i] * row[j] for row in rows) for j in range(size)] + [sum(row[i] for row in rows)] for i in range(size)]
    for i in range(size):
        matrix[i][i] += 1e-9
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for r in range(size):
            if r != i:
                factor = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - factor * b for a, b in zip(matrix[r], matrix[i])]
    return [matrix[i][size] / matrix[i][i] / scale[i] for i in range(size)]


NAMES = ["overhead", "work", "wire", "update", "gather", "alpha"]


def features(run, cores):
    parameters, ranks, accumulate = run["parameters"], run["ranks"], run["accumulate"]
    crowd = max(1.0, ranks / cores)
    others = parameters * (ranks - 1) / ranks
    return [1.0, accumulate * parameters * crowd, accumulate * others * crowd, parameters / ranks * crowd, others * crowd,
            (accumulate + 1) * run["buckets"] * (ranks - 1)]


def fit(runs, cores):
    return dict(zip(NAMES, least_squares([features(run, cores) for run in runs], [run["seconds"] for run in runs])))


def predict(weights, run, cores):
    return sum(weights[name] * value for name, value in zip(NAMES, features(run, cores)))


# What a cluster of 8-GPU nodes (H100, NVLink inside, one 400 Gb/s card a GPU) does; see docs/performance.md for sources.
GPU = {"memory_bytes_per_s": 3.35e12, "busbw_nvlink": 350e9, "busbw_network": 48e9, "alpha_nvlink": 3.4e-6, "alpha_network": 14e-6,
       "flops": 0.45 * 989e12, "bucket_bytes": 128 << 20}


def gpu_step(parameters, ranks, tokens_per_rank, constants=GPU):
    """Seconds of one step of a bf16 model at stage 2: compute, exposed communication and update, each by itself. Rings:
    alpha a hop, and the slower of the links; reductions overlap backward (two thirds of the compute), gathers do not."""
    nodes = max(1, ranks // 8)
    alpha = constants["alpha_nvlink"] if nodes == 1 else constants["alpha_network"]
    bandwidth = constants["busbw_nvlink"] if nodes == 1 else min(constants["busbw_nvlink"], 8 * constants["busbw_network"])
    volume = 2.0 * parameters
    buckets = max(1.0, volume / constants["bucket_bytes"])
    one_way = buckets * (ranks - 1) * alpha + volume * (ranks - 1) / ranks / bandwidth
    compute = 6.0 * parameters * tokens_per_rank / constants["flops"]
    tail = one_way / buckets
    exposed = max(0.0, one_way - compute * 2 / 3) + tail + one_way
    update = 28.0 * parameters / ranks / constants["memory_bytes_per_s"]
    return {"ranks": ranks, "compute": compute, "exposed": exposed, "update": update, "step": compute + exposed + update,
            "efficiency": compute / (compute + exposed + update)}
