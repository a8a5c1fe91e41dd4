#!/usr/bin/env python3
"""figures.py decides whether promises hold, model.py carries times to other machines, and report.py and document.py bring both into
text: all must be able to say no."""

import math
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "peers")]
import compare  # noqa: E402
import document  # noqa: E402
import figures  # noqa: E402
import growth  # noqa: E402
import model  # noqa: E402
import promises  # noqa: E402
import report  # noqa: E402


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


class Promises(unittest.TestCase):
    def test_one_that_nobody_measured_is_listed_and_does_not_hold(self):
        there = figures.figure("a", "what", 0.5, 1.0)
        found = figures.with_promises([there], {"a": 1.0, "b": 2.0}, "no such Python")
        self.assertEqual(found, [there, {"id": "b", "what": "not measured: no such Python", "value": None, "limit": 2.0, "pass": False}])

    def test_a_program_that_has_lost_its_limit_or_loosened_it_is_held_to_the_promise(self):
        for limit in (None, 3.0):
            for value, holds in ((2.0, True), (2.1, False)):
                found = figures.with_promises([figures.figure("a", "what", value, limit)], {"a": 2.0}, "")
                self.assertEqual([(entry["limit"], entry["pass"]) for entry in found], [(2.0, holds)])

    def test_a_part_that_did_not_run_breaks_all_of_its_promises_and_says_why(self):
        for part in ("kernels", "update", "optim", "collectives", "checkpoint", "offload", "parameters", *promises.PEERS):
            made = report.Report({part: {"part": part, "figures": [], "error": "it died"}})
            self.assertGreater(len(made.figures), 0, part)
            self.assertEqual({entry["id"]: entry["limit"] for entry in made.figures}, promises.of_part(part))
            self.assertFalse(made.holds(), part)
            self.assertIn("it died", made.text())
            self.assertIn("not measured", made.blocks["figures"])

    def test_what_was_measured_before_a_part_died_stays(self):
        kept = figures.figure("kernels.torch_adamw", "what", 0.2, 0.25)
        made = report.Report({"kernels": {"part": "kernels", "figures": [kept], "error": "it died"}})
        self.assertIn(kept, made.figures)
        self.assertEqual(len(made.figures), len(promises.of_part("kernels")))

    def test_reductions_and_gathers_stand_against_gloos_ring_over_both_backends_and_in_both_worlds(self):
        promised = promises.of_part("collectives")
        for backend in ("shm", "gloo"):
            for ranks in (2, 4):
                pair = f"float32.25MiB.{backend}_to_ring.n{ranks}"
                self.assertEqual(promised[f"reduce_scatter.{pair}"], 0.6)
                self.assertEqual(promised[f"reduce_scatter_and_all_gather.{pair}"], 1.0)

    def test_the_update_stands_against_cpu_adam(self):
        for ratio, holds in ((0.66, True), (0.67, False)):
            made = report.Report({"update": {"part": "update", "figures": [], "update": {"ratio": ratio}}})
            self.assertEqual([(entry["id"], entry["pass"]) for entry in made.figures], [("kernels.cast_cpu_adam_cast", holds)])


class Rounds(unittest.TestCase):
    @staticmethod
    def raw(wall, not_running=None, workload="mlp"):
        rank = {"wall": [wall], "cpu": [wall], "before_kib": 0, "peak_kib": 1024}
        return {"workload": workload, "accumulate": 1, "ranks": 2, "rounds": {"ddp": [[rank, rank]]}, "not_running": not_running or {}}

    def test_of_several_runs_count_together(self):
        merged = compare.summarised(compare.merge([self.raw(1.0), self.raw(3.0), self.raw(5.0)]))
        self.assertEqual((merged["contenders"]["ddp"]["wall_median"], merged["contenders"]["ddp"]["rounds"]), (3.0, 3))

    def test_who_failed_once_failed(self):
        merged = compare.summarised(compare.merge([self.raw(1.0), self.raw(1.0, {"ddp": "died"})]))
        self.assertEqual((merged["contenders"], merged["not_running"]), ({}, {"ddp": "died"}))

    def test_of_different_workloads_do_not_mix(self):
        with self.assertRaises(ValueError):
            compare.merge([self.raw(1.0), self.raw(1.0, workload="minigpt")])


class Growth(unittest.TestCase):
    def piece(self, part, seconds):
        runs = [dict(run, parameters=growth.mlp_parameters(2048, 3), buckets=5, wall_median=seconds(run)) for run in growth.PARTS[part](True)]
        return {"part": part, "figures": [], "runs": runs}

    def test_a_run_that_did_not_fit_is_listed_with_the_reason(self):
        piece = self.piece("ranks", lambda run: 1.0)
        piece["runs"][-1] = dict({key: value for key, value in piece["runs"][-1].items() if key != "wall_median"}, skipped="needs 20 GiB")
        self.assertIn("needs 20 GiB", report.Report({"ranks": piece}).blocks["growth"])

    def test_every_larger_run_is_a_prediction_with_a_verdict(self):
        runs = [dict(growth.run_of("1 rank", None, growth.mlp(width), 1), parameters=p, buckets=1, wall_median=seconds)
                for width, p, seconds in ((2048, 2e7, 0.02), (2048, 3e7, 0.03), (2048, 1e8, 0.1), (2048, 4e8, 0.4), (2048, 9e8, 1.8),
                                          (512, 3e7, 9.9), (4096, 3e8, 9.9), (2048, 1e6, 9.9))]
        # The last of its width is twice as slow; other widths do not count, nor does what caches hold.
        made = report.Report({"parameters": {"part": "parameters", "figures": [], "runs": runs}})
        self.assertEqual({entry["id"]: entry["pass"] for entry in made.figures},
                         {"model.largest_error": False, "model.p400M.n1.a1": True, "model.p900M.n1.a1": False})

    def test_where_nothing_is_large_the_largest_is_predicted(self):
        runs = [{"parameters": p, "ranks": 1, "accumulate": 1} for p in (2e7, 3e7, 5e7)]
        self.assertEqual(model.split(runs), (runs[:2], runs[2:]))

    def test_fits_in_the_memory_that_is_there(self):
        self.assertEqual(growth.bytes_needed(10**9, 1), 16 * 10**9)
        self.assertEqual(growth.mlp_parameters(4096, 3), 59786240)


class Document(unittest.TestCase):
    text = "a\n<!-- measured: one -->\nold\n<!-- end -->\nb\n<!-- measured: two -->\nkept\n<!-- end -->\n"

    def test_gets_the_blocks_that_there_are_and_keeps_the_others(self):
        filled = document.filled(self.text, {"one": "| new \\1 |\n", "three": "x"})
        self.assertEqual(filled, self.text.replace("old", "\n| new \\1 |\n"))

    def test_filled_twice_is_as_filled_once(self):
        once = document.filled(self.text, {"one": "new"})
        self.assertEqual(document.filled(once, {"one": "new"}), once)


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
