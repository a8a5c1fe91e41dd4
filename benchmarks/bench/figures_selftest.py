#!/usr/bin/env python3
"""figures.py decides whether promises hold, and model.py carries times to other machines: both must be able to say no."""

import math
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import figures  # noqa: E402
import model  # noqa: E402


def contender(wall, cpu=None, net=None):
    return {"wall_median": wall, "cpu_median": wall if cpu is None else cpu, "net_mib": 100.0 if net is None else net}


def comparison(contenders, workload="minigpt", accumulate=4, not_running=None):
    return {"workload": workload, "accumulate": accumulate, "contenders": contenders, "not_running": not_running or {}}


def by_id(entries):
    named = {entry["id"]: entry for entry in entries}
    assert len(named) == len(entries), "two figures of one name"
    return named


class Figure(unittest.TestCase):
    def test_holds_up_to_its_limit_and_not_beyond(self):
        for value, limit, holds in [(0.99, 1.0, True), (1.0, 1.0, True), (1.00001, 1.0, False), (2.0, 1.0, False),
                                    (0.75, 0.75, True), (0.76, 0.75, False)]:
            self.assertEqual(figures.figure("id", "what", value, limit)["pass"], holds, (value, limit))

    def test_without_limit_always_holds(self):
        self.assertEqual(figures.figure("id", "what", 1e9, None), {"id": "id", "what": "what", "value": 1e9, "limit": None, "pass": True})

    def test_that_is_no_number_does_not_hold(self):
        self.assertFalse(figures.figure("id", "what", math.nan, 1.0)["pass"])


class OfPeers(unittest.TestCase):
    def everybody(self):
        return {"libzero_1": contender(2.0, 3.0, 50), "libzero_2": contender(1.5, 1.2, 30), "libzero_2_no_sync": contender(1.0),
                "alone": contender(0.01, 0.01, 1), "libzero_1_gloo": contender(0.02, 0.02, 1),
                "ddp": contender(4.0, 2.0, 200), "ddp_fused": contender(2.5, 6.0, 100), "ddp_zero": contender(5.0, 5.0, 40),
                "deepspeed_1": contender(10.0, 10.0, 400), "fsdp2": contender(1.25, 1.0, 20), "deepspeed_2": contender(3.0, 3.0, 60)}

    def test_ours_stands_over_the_best_peer_of_each_measure_which_is_named(self):
        found = by_id(figures.of_peers(comparison(self.everybody())))
        expected = {  # name: ratio, peer, holds
            "stage1.wall": (2.0 / 2.5, "ddp_fused", True), "stage1.cpu": (3.0 / 2.0, "ddp", False),
            "stage1.memory": (50 / 40, "ddp_zero", False), "stage2.wall": (1.5 / 1.25, "fsdp2", False),
            "stage2.cpu": (1.2 / 1.0, "fsdp2", False), "stage2.memory": (30 / 20, "fsdp2", False),
            "stage2.no_sync.wall": (1.0 / 2.5, "ddp_fused", True)}
        self.assertEqual(set(found), {f"peers.minigpt.a4.{name}" for name in expected})
        for name, (value, peer, holds) in expected.items():
            entry = found[f"peers.minigpt.a4.{name}"]
            self.assertAlmostEqual(entry["value"], value, places=4, msg=name)
            self.assertIn(f"over {peer},", entry["what"])
            self.assertEqual(entry["pass"], holds, name)

    def test_any_peer_can_be_the_best(self):
        stage_one, stage_two = ["ddp", "ddp_fused", "ddp_zero", "deepspeed_1"], ["fsdp2", "deepspeed_2"]
        for peer in stage_one + stage_two:
            found = by_id(figures.of_peers(comparison({**self.everybody(), peer: contender(0.5, 0.5, 10)})))
            for name, candidates in [("stage1.wall", stage_one), ("stage1.cpu", stage_one), ("stage1.memory", stage_one),
                                     ("stage2.wall", stage_one + stage_two), ("stage2.cpu", stage_one + stage_two),
                                     ("stage2.memory", stage_two), ("stage2.no_sync.wall", stage_one)]:
                what = found[f"peers.minigpt.a4.{name}"]["what"]
                self.assertEqual(f"over {peer}," in what, peer in candidates, f"{name}: {what}")

    def test_limits_are_those_that_are_promised(self):
        of = {workload: {entry["id"].removeprefix(f"peers.{workload}.a1."): entry["limit"]
                         for entry in figures.of_peers(comparison(self.everybody(), workload, 1))} for workload in ("minigpt", "mlp")}
        names = ["stage1.wall", "stage1.cpu", "stage1.memory", "stage2.wall", "stage2.cpu", "stage2.memory"]
        self.assertEqual(of["minigpt"], dict.fromkeys(names, 1.0))
        self.assertEqual(of["mlp"], dict(zip(names, [1.0, 1.0, 1.0, 0.75, 0.75, 0.9])))
        accumulated = figures.of_peers(comparison(self.everybody(), "mlp", 4))
        self.assertEqual({entry["limit"] for entry in accumulated}, {1.0})

    def test_no_sync_is_asked_for_only_where_it_leaves_something_out(self):
        names = by_id(figures.of_peers(comparison(self.everybody(), accumulate=1)))
        self.assertNotIn("peers.minigpt.a1.stage2.no_sync.wall", names)

    def test_a_peer_that_did_not_run_leaves_the_best_of_the_others(self):
        contenders = self.everybody()
        del contenders["ddp_fused"]
        found = by_id(figures.of_peers(comparison(contenders, not_running={"ddp_fused": "no such option"})))
        self.assertAlmostEqual(found["peers.minigpt.a4.stage1.wall"]["value"], 2.0 / 4.0)
        self.assertIn("over ddp,", found["peers.minigpt.a4.stage1.wall"]["what"])

    def test_no_peer_no_figure(self):
        self.assertEqual(figures.of_peers(comparison({"libzero_1": contender(1.0), "libzero_2": contender(1.0)})), [])

    def test_ours_that_was_not_asked_for_has_no_figure(self):
        contenders = self.everybody()
        del contenders["libzero_2_no_sync"]
        self.assertNotIn("peers.minigpt.a4.stage2.no_sync.wall", by_id(figures.of_peers(comparison(contenders))))

    def test_ours_that_did_not_run_breaks_its_promises_and_says_why(self):
        contenders = self.everybody()
        del contenders["libzero_2"]
        found = by_id(figures.of_peers(comparison(contenders, not_running={"libzero_2": "rank 1 died"})))
        for name in ("wall", "cpu", "memory"):
            entry = found[f"peers.minigpt.a4.stage2.{name}"]
            self.assertFalse(entry["pass"], name)
            self.assertIn("rank 1 died", entry["what"])
        self.assertTrue(found["peers.minigpt.a4.stage1.wall"]["pass"])


class OfOverlap(unittest.TestCase):
    def test_is_what_early_adds_and_what_it_hides_of_late(self):
        share, percent = figures.of_overlap({"none": 1.0, "early": 1.25, "late": 2.0})
        self.assertAlmostEqual(share["value"], 0.2)
        self.assertAlmostEqual(percent["value"], 0.75)

    def test_noise_hides_everything_and_divides_by_nothing(self):
        share, percent = figures.of_overlap({"none": 1.0, "early": 0.9, "late": 1.0})
        self.assertEqual((share["value"], percent["value"]), (0.0, 0.0))


class OfModel(unittest.TestCase):
    def test_is_the_worst_error_whichever_its_sign(self):
        self.assertAlmostEqual(figures.of_model([1.0, 2.0, 4.0], [1.1, 1.6, 4.0])["value"], 0.2)
        self.assertAlmostEqual(figures.of_model([1.0, 2.0], [1.3, 1.9])["value"], 0.3)

    def test_holds_to_fifteen_percent(self):
        self.assertTrue(figures.of_model([1.0], [1.14])["pass"])
        self.assertFalse(figures.of_model([1.0], [1.16])["pass"])
        self.assertFalse(figures.of_model([1.0], [0.84])["pass"])


class StepModel(unittest.TestCase):
    known = {"overhead": 2e-3, "work": 3e-9, "wire": 5e-9, "update": 7e-9, "gather": 2e-9, "alpha": 3e-5}

    def runs(self, sizes=(1e6, 3e6, 2e7), cores=4):
        """Timed with the formula of model.py's text."""
        result = []
        for p in sizes:
            for n in (1, 2, 4, 8):
                for a in (1, 2, 4):
                    crowd, k = max(1, n / cores), self.known
                    buckets = 2 + int(p) % 7  # any number that is no multiple of the others
                    seconds = (k["overhead"] + a * crowd * (k["work"] * p + k["wire"] * p * (n - 1) / n)
                               + k["update"] * p / n * crowd + k["gather"] * p * (n - 1) / n * crowd
                               + k["alpha"] * (a + 1) * buckets * (n - 1))
                    result.append({"parameters": p, "ranks": n, "accumulate": a, "buckets": buckets, "seconds": seconds})
        return result

    def test_recovers_known_constants(self):
        fitted = model.fit(self.runs(), 4)
        self.assertEqual(set(fitted), set(self.known))
        for name, value in self.known.items():
            self.assertAlmostEqual(fitted[name] / value, 1.0, places=3, msg=name)

    def test_predicts_sizes_that_it_has_not_seen(self):
        fitted = model.fit(self.runs(), 4)
        for run in self.runs(sizes=(1e8,)):
            self.assertAlmostEqual(model.predict(fitted, run, 4) / run["seconds"], 1.0, places=3)

    def test_no_constant_is_negative(self):
        runs = self.runs()
        for run in runs:  # the more ranks, the cheaper: no wire can be negative
            run["seconds"] /= run["ranks"]
        self.assertGreaterEqual(min(model.fit(runs, 4).values()), 0.0)

    def test_leaves_out_the_constant_that_would_be_negative(self):
        self.known = {**self.known, "gather": -1e-10}
        fitted = model.fit(self.runs(), 4)
        self.assertEqual(fitted["gather"], 0.0)
        for name in ("overhead", "work", "wire", "update"):
            self.assertAlmostEqual(fitted[name] / self.known[name], 1.0, delta=0.1, msg=name)

    def test_ranks_beyond_the_cores_wait_for_each_other(self):
        run = {"parameters": 1e8, "ranks": 8, "accumulate": 1, "buckets": 4}
        self.assertAlmostEqual(model.predict({**dict.fromkeys(self.known, 0.0), "work": 1e-9}, run, 2), 0.4)
        self.assertAlmostEqual(model.predict({**dict.fromkeys(self.known, 0.0), "work": 1e-9}, run, 8), 0.1)


class GpuStep(unittest.TestCase):
    constants = {"memory_bytes_per_s": 1e12, "busbw_nvlink": 4e11, "busbw_network": 1e10, "alpha_nvlink": 0.0, "alpha_network": 0.0,
                 "flops": 1e15, "bucket_bytes": 1e9}

    def test_adds_compute_what_is_exposed_and_the_update(self):
        step = model.gpu_step(1e9, 8, 1000, self.constants)  # 2 GB in two buckets, one node
        one_way = 2e9 * 7 / 8 / 4e11
        self.assertAlmostEqual(step["compute"], 6e12 / 1e15)
        self.assertAlmostEqual(step["update"], 28e9 / 8 / 1e12)
        self.assertAlmostEqual(step["exposed"], one_way - 0.004 + one_way / 2 + one_way)
        self.assertAlmostEqual(step["step"], step["compute"] + step["exposed"] + step["update"])
        self.assertAlmostEqual(step["efficiency"], step["compute"] / step["step"])

    def test_reductions_hide_behind_backward_but_gathers_and_the_last_bucket_do_not(self):
        step = model.gpu_step(1e9, 8, 1e6, self.constants)
        one_way = 2e9 * 7 / 8 / 4e11
        self.assertAlmostEqual(step["exposed"], 1.5 * one_way)

    def test_several_nodes_are_bound_by_the_slower_link_and_pay_its_latency(self):
        step = model.gpu_step(1e9, 16, 1e6, self.constants)
        self.assertAlmostEqual(step["exposed"], 1.5 * 2e9 * 15 / 16 / 8e10)
        late = model.gpu_step(1e9, 16, 1e6, {**self.constants, "alpha_network": 1e-3, "alpha_nvlink": 9.0})
        self.assertAlmostEqual(late["exposed"] - step["exposed"], 1.5 * 2 * 15 * 1e-3)


if __name__ == "__main__":
    unittest.main()
