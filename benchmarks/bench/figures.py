"""From measurements to the list of figures: {id, what, value, limit, pass}."""

STAGE_ONE_PEERS = ["ddp", "ddp_fused", "ddp_zero", "deepspeed_1"]
STAGE_TWO_PEERS = ["fsdp2", "deepspeed_2"]


def figure(name, what, value, limit):
    return {"id": name, "what": what, "value": round(value, 4), "limit": limit, "pass": limit is None or value <= limit}


def best(contenders, names, key):
    values = {name: contenders[name][key] for name in names if name in contenders}
    return min(values.items(), key=lambda item: item[1]) if values else None


def ratio(name, comparison, ours, peers, key, limit):
    """Ours over the best peer's, which the text names. Ours that failed fails; None where nobody asked for ours, or no peer ran."""
    contenders = comparison["contenders"]
    if ours in comparison["not_running"]:
        return {"id": name, "what": f"{ours} did not run: {comparison['not_running'][ours]}", "value": 0.0, "limit": limit, "pass": False}
    found = best(contenders, peers, key)
    if ours not in contenders or found is None:
        return None
    peer, value = found
    return figure(name, f"{ours} over {peer}, {key}, {comparison['workload']}, accumulation {comparison['accumulate']}",
                  contenders[ours][key] / value, limit)


def of_peers(comparison):
    """The promises about whole steps."""
    workload, accumulate = comparison["workload"], comparison["accumulate"]
    prefix = f"peers.{workload}.a{accumulate}"
    everybody = STAGE_ONE_PEERS + STAGE_TWO_PEERS
    is_bound = workload == "mlp" and accumulate == 1  # by the optimizer
    figures = [
        ratio(f"{prefix}.stage1.wall", comparison, "libzero_1", STAGE_ONE_PEERS, "wall_median", 1.0),
        ratio(f"{prefix}.stage1.cpu", comparison, "libzero_1", STAGE_ONE_PEERS, "cpu_median", 1.0),
        ratio(f"{prefix}.stage1.memory", comparison, "libzero_1", STAGE_ONE_PEERS, "net_mib", 1.0),
        ratio(f"{prefix}.stage2.wall", comparison, "libzero_2", everybody, "wall_median", 0.75 if is_bound else 1.0),
        ratio(f"{prefix}.stage2.cpu", comparison, "libzero_2", everybody, "cpu_median", 0.75 if is_bound else 1.0),
        ratio(f"{prefix}.stage2.memory", comparison, "libzero_2", STAGE_TWO_PEERS, "net_mib", 0.9 if is_bound else 1.0),
    ]
    if accumulate > 1:
        figures.append(ratio(f"{prefix}.no_sync.wall", comparison, "libzero_2_no_sync", STAGE_ONE_PEERS, "wall_median", 1.0))
    return [entry for entry in figures if entry is not None]


def of_overlap(runs):
    """runs: seconds of a step with communication early, late and none."""
    exposed = runs["early"] - runs["none"]
    whole = runs["late"] - runs["none"]
    return [figure("overlap.exposed_share", "time that communication adds to a step, over the step", max(0.0, exposed) / runs["early"], None),
            figure("overlap.percent", "part of the communication that backward hides", 1 - exposed / whole if whole > 0 else 0.0, None)]


def of_model(measured, predicted):
    worst = max(abs(p / m - 1) for m, p in zip(measured, predicted))
    return figure("model.largest_error", "largest relative error of predicted step times, sizes that the fit has not seen", worst, 0.15)
