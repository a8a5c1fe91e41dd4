"""From measurements to the list of figures: {id, what, value, limit, pass}."""

STAGE_ONE_PEERS = ["ddp", "ddp_fused", "ddp_zero", "deepspeed_1"]
STAGE_TWO_PEERS = ["fsdp2", "deepspeed_2"]
MODEL_LIMIT = 0.15
UPDATE_LIMIT = 1 / 1.5


def figure(name, what, value, limit):
    return {"id": name, "what": what, "value": round(value, 4), "limit": limit, "pass": limit is None or value <= limit}


def not_measured(name, why, limit):
    """A promise that nobody checked does not hold."""
    return {"id": name, "what": f"not measured: {why}", "value": None, "limit": limit, "pass": False}


def judged(entry, limit):
    """The figure; by the promised limit where the program that measured it has a laxer one, or none."""
    if entry["limit"] is not None and entry["limit"] <= limit:
        return entry
    return {**entry, "limit": limit, "pass": entry["value"] is not None and entry["value"] <= limit}


def with_promises(measured, promises, why):
    """The figures, and those of `promises` ({id: limit}) that are not among them as not measured."""
    found = {entry["id"] for entry in measured}
    return [judged(entry, promises[entry["id"]]) if entry["id"] in promises else entry for entry in measured] + [
        not_measured(name, why, limit) for name, limit in promises.items() if name not in found]


def best(contenders, names, key):
    values = {name: contenders[name][key] for name in names if name in contenders}
    return min(values.items(), key=lambda item: item[1]) if values else None


def ratio(name, comparison, ours, peers, key, limit):
    """Ours over the best peer's, which the text names. Ours that failed fails; None where nobody asked for ours, or no peer ran."""
    contenders = comparison["contenders"]
    if ours in comparison["not_running"]:
        return not_measured(name, f"{ours} did not run: {comparison['not_running'][ours]}", limit)
    found = best(contenders, peers, key)
    if ours not in contenders or found is None:
        return None
    peer, value = found
    return figure(name, f"{ours} over {peer}, {key}, {comparison['workload']}, accumulation {comparison['accumulate']}",
                  contenders[ours][key] / value, limit)


def peers_rules(workload, accumulate):
    """Of each promise about whole steps: name, ours, the peers, the measure and the limit."""
    everybody = STAGE_ONE_PEERS + STAGE_TWO_PEERS
    is_bound = workload == "mlp" and accumulate == 1  # by the optimizer
    rules = [
        ("stage1.wall", "libzero_1", STAGE_ONE_PEERS, "wall_median", 1.0),
        ("stage1.cpu", "libzero_1", STAGE_ONE_PEERS, "cpu_median", 1.0),
        ("stage1.memory", "libzero_1", STAGE_ONE_PEERS, "net_mib", 1.0),
        ("stage2.wall", "libzero_2", everybody, "wall_median", 0.75 if is_bound else 1.0),
        ("stage2.cpu", "libzero_2", everybody, "cpu_median", 0.75 if is_bound else 1.0),
        ("stage2.memory", "libzero_2", STAGE_TWO_PEERS, "net_mib", 0.9 if is_bound else 1.0),
    ]
    if accumulate > 1:
        rules += [(f"stage{stage}.no_sync.wall", f"libzero_{stage}_no_sync", STAGE_ONE_PEERS, "wall_median", 1.0) for stage in (1, 2)]
    return [(f"peers.{workload}.a{accumulate}.{name}", *rest) for name, *rest in rules]


def of_peers(comparison):
    """The promises about whole steps."""
    figures = [ratio(name, comparison, *rest) for name, *rest in peers_rules(comparison["workload"], comparison["accumulate"])]
    return [entry for entry in figures if entry is not None]


def of_overlap(runs):
    """runs: seconds of a step with communication early, late and none."""
    exposed = runs["early"] - runs["none"]
    whole = runs["late"] - runs["none"]
    return [figure("overlap.exposed_share", "time that communication adds to a step, over the step", max(0.0, exposed) / runs["early"], None),
            figure("overlap.percent", "part of the communication that backward hides", 1 - exposed / whole if whole > 0 else 0.0, None)]


def of_model(measured, predicted):
    worst = max(abs(p / m - 1) for m, p in zip(measured, predicted))
    return figure("model.largest_error", "largest relative error of predicted step times, runs that the fit has not seen", worst, MODEL_LIMIT)


def of_prediction(run, predicted):
    """One run that the fit has not seen."""
    name = f"model.p{run['parameters'] / 1e6:.0f}M.n{run['ranks']}.a{run['accumulate']}"
    return figure(name, f"relative error: predicted {predicted:.3f} s, measured {run['seconds']:.3f} s",
                  abs(predicted / run["seconds"] - 1), MODEL_LIMIT)


def of_update(measured):
    """measured: what peers/cpu_adam.py prints."""
    return figure("kernels.cast_cpu_adam_cast", "one step with bf16 parameters against cast, DeepSpeed's CPUAdam, cast", measured["ratio"],
                  UPDATE_LIMIT)
