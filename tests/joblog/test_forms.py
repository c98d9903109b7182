"""Every form: its line, the variants its printer has had, and what it must not take for a step."""

from __future__ import annotations

import pytest

from slurm_io.joblog.forms.base import FORMS
from slurm_io.joblog.model import LogRecord
from tests.joblog.logs import MEGATRON, ONE_OF_EACH, only, parse

FORM_NAMES = sorted(FORMS.discover())
NO_TIME = {"hf_trainer", "deepspeed", "torchtitan"}
DATA_WAIT = {"open_clip", "timm", "imagenet", "mmengine"}


def steps(text: str) -> list[LogRecord]:
    return parse(text, "step")


def values(record: LogRecord) -> tuple[object, ...]:
    return record.step, record.step_time_s, record.samples_per_s, record.tokens_per_s


def test_every_form_is_shown_here() -> None:
    assert set(ONE_OF_EACH) == set(FORM_NAMES)


@pytest.mark.parametrize("name", FORM_NAMES)
class TestEveryForm:
    def test_reads_its_own_line_and_no_other_form_does(self, name: str) -> None:
        record = only(ONE_OF_EACH[name] + "\n")
        assert (record.source, record.run, record.at_byte) == (name, 1, 0)

    def test_knows_the_step_and_its_time(self, name: str) -> None:
        record = only(ONE_OF_EACH[name] + "\n")
        if record.kind == "step":
            assert record.step == 20
        if name == "nanotron":
            assert record.step_time_s == pytest.approx(2.1)
        elif name not in NO_TIME:
            assert record.step_time_s == pytest.approx(2.5)
        else:
            assert record.step_time_s is None

    def test_says_what_its_time_is_a_mean_of(self, name: str) -> None:
        record = only(ONE_OF_EACH[name] + "\n")
        if record.step_time_s is not None:
            assert record.detail["basis"] in {"interval", "step", "smoothed"}
            assert record.detail["saves"] in {"included", "excluded"}

    def test_names_the_base_of_tokens(self, name: str) -> None:
        record = only(ONE_OF_EACH[name] + "\n")
        assert (record.tokens_per_s is not None) == ("tokens_base" in record.detail)
        assert record.detail.get("tokens_base", "total") in {"total", "per_gpu"}

    def test_data_wait_where_the_line_has_one(self, name: str) -> None:
        record = only(ONE_OF_EACH[name] + "\n")
        assert record.detail.get("data_wait_s") == (0.125 if name in DATA_WAIT else None)

    def test_has_markers_that_its_line_holds(self, name: str) -> None:
        line = ONE_OF_EACH[name].encode()
        is_bar = only(line + b"\n").kind == "progress"
        assert is_bar or any(marker in line for marker in FORMS.get(name).markers)

    @pytest.mark.parametrize("before", ["0: ", " 12: ", "[default7]:", "[rank3]:", "stdout: "])
    def test_who_prints_it_does_not_matter(self, name: str, before: str) -> None:
        labelled = "\n".join(before + line for line in ONE_OF_EACH[name].split("\n")) + "\n"
        plain, found = only(ONE_OF_EACH[name] + "\n"), only(labelled)
        assert (found.source, values(found)) == (name, values(plain))

    def test_colours_do_not_matter(self, name: str) -> None:
        lines = ONE_OF_EACH[name].replace(": ", ": \x1b[31m", 1).split("\n")
        coloured = "\n".join(f"\x1b[1;32m{line}\x1b[0m" for line in lines) + "\n"
        assert values(only(coloured)) == values(only(ONE_OF_EACH[name] + "\n"))

    def test_a_line_cut_anywhere_is_no_step_with_wrong_figures(self, name: str) -> None:
        """Cut and ended by another line: figures are those of the whole line, or missing."""
        text = ONE_OF_EACH[name].rpartition("\n")[2]
        head = ONE_OF_EACH[name].removesuffix(text)
        whole = only(ONE_OF_EACH[name] + "\n")
        for end in range(len(text)):
            for record in parse(f"{head}{text[:end]}"):
                assert record.step in (whole.step, None)
                assert record.step_time_s in (whole.step_time_s, None)


class TestMegatron:
    @pytest.mark.parametrize(
        "line",
        [
            (
                " iteration       20/  500000 | elapsed time per iteration (ms): 2500.0 | global "
                "batch size:  1024 |"
            ),
            (
                "==> iteration       20/  500000 | consumed samples:  20480 | elapsed time per "
                "iteration (ms): 2500.0 | global batch size:  1024 |"
            ),
            (
                "[2025-06-01 10:00:00.1][INFO][utils:207] - iteration=      20/  500000 | consumed_"
                "samples=  20480 | elapsed_time_per_iteration_ms=2500.0 | global_batch_size=1024 |"
            ),
            (
                "[default7]: iteration       20/  500000 | elapsed time per iteration (s): 2.50 | "
                "global batch size:  1024 | samples per second: 409.6 |"
            ),
        ],
        ids=["first", "arrow", "equals", "seconds"],
    )
    def test_variants(self, line: str) -> None:
        assert values(only(line + "\n")) == (20, 2.5, 409.6, None)

    def test_tokens_per_gpu_gives_the_number_of_gpus(self) -> None:
        line = (
            " iteration 8/ 100 | consumed samples: 6144 | consumed tokens: 25165824 | elapsed time "
            "per iteration (ms): 10000.0 | global batch size: 768 | actual seqlen: 4096 | samples "
            "per second: 76.8 | tokens per gpu per second (tgs): 4915.2 |\n"
        )
        step = only(line)
        assert step.tokens_per_s == pytest.approx(314572.8)
        assert (step.detail["tokens_per_s_per_gpu"], step.detail["gpus"]) == (4915.2, 64)

    def test_a_length_that_grew_on_the_way_gives_no_tokens(self) -> None:
        line = (
            " iteration 8/ 100 | consumed samples: 1000 | consumed tokens: 1500001 | elapsed time "
            "per iteration (ms): 100.0 | global batch size: 8 |\n"
        )
        assert only(line).tokens_per_s is None

    @pytest.mark.parametrize(
        "timers",
        [
            "time (ms) | forward-compute: 193.77 | batch-generator: 25.27 | optimizer: 3.0\n",
            (
                "(min, max) time across ranks (ms):\n    forward-backward ....: (100.0, 120.0)\n"
                "    batch-generator ................................: (10.04, 25.27)\n"
            ),
            "max time across ranks (ms):\n    batch-generator .......: 25.27\n",
        ],
        ids=["one line", "min and max", "max"],
    )
    def test_the_loaders_timer_belongs_to_the_step_before(self, timers: str) -> None:
        text = MEGATRON.format(second=1, step=1, samples=1) + "\n" + timers
        text += MEGATRON.format(second=4, step=2, samples=2) + "\n"
        waits = [step.detail.get("data_wait_s") for step in steps(text)]
        assert waits == [pytest.approx(0.02527), None]

    def test_a_save_has_the_time_between_its_stamps(self) -> None:
        text = (
            "[2025-06-01 10:00:00.000000] saving checkpoint at iteration     100 to /c in torch\n"
            "[2025-06-01 10:00:07.250000] successfully saved checkpoint from iteration     100 to\n"
        )
        save = only(text, "ckpt_save")
        assert (save.step, save.detail["duration_s"]) == (100, 7.25)

    def test_a_save_has_the_time_of_its_timer_and_is_one_save(self) -> None:
        text = (
            "saving checkpoint at iteration     100 to /ckpt in torch_dist format\n"
            "  successfully saved checkpoint from iteration     100 to /ckpt [ t 1/2, p 1/4 ]\n"
            "(min, max) time across ranks (ms):\n"
            "    save-checkpoint ................................: (24895.07, 24895.13)\n"
        )
        save = only(text)
        assert (save.kind, save.step, save.detail["duration_s"]) == ("ckpt_save", 100, 24.89513)

    def test_stamps_are_not_taken_for_the_step_time(self) -> None:
        """Its timer stands still during saves; the difference of two stamps does not."""
        line = " [2025-06-01 10:0{}:00] iteration {}/ 9 | elapsed time per iteration (ms): x |\n"
        assert steps(line.format(0, 1) + line.format(1, 2)) == []

    @pytest.mark.parametrize(
        "line", ["train iteration 5 of 9", "iteration budget: 7", "number of iterations: 3 |"]
    )
    def test_other_iterations_are_none(self, line: str) -> None:
        assert parse(line + "\n") == []

    def test_validation_of_one_of_several_sets(self) -> None:
        text = "0: validation loss at iteration 238 [german] | lm loss value: nan | lm loss PPL:\n"
        seen = only(text)
        assert (seen.kind, seen.step, seen.detail) == ("eval", 238, {"nan": ["loss"]})


class TestNanotron:
    def test_a_batch_printed_in_tokens(self) -> None:
        line = (
            "12/21 01:39:51 [INFO|DP=0|TP=0|n7]: iteration: 211364 / 1500000 | consumed_tokens: "
            "480B | time_per_iteration_ms: 8.79K | tokens_per_sec: 182K | tokens_per_sec_per_gpu: "
            "699 | global_batch_size: 1.6M | lm_loss: 2.04 | eta: 131 days, 1:45:39\n"
        )
        step = only(line)
        assert values(step) == (211364, 8.79, None, 182000)
        assert step.detail["tokens_per_step"] == 1_600_000
        assert "tokens_per_sample" not in step.detail and "global_batch" not in step.detail
        assert "gpus" not in step.detail  # 260.1 to 260.7: no whole number fits


class TestHfTrainer:
    def test_newer_versions_print_strings(self) -> None:
        text = (
            "{'loss': '2.231', 'grad_norm': 'nan', 'learning_rate': '5e-05', 'epoch': '0.5'}\n"
            "{'eval_loss': '2.5', 'eval_runtime': '1.216', 'eval_steps_per_second': '7.4', "
            "'epoch': '1'}\n"
            "{'train_runtime': '178.5', 'train_samples_per_second': '84.04', "
            "'train_steps_per_second': '2.639', 'train_loss': '0.2321', 'epoch': '3'}\n"
        )
        loss, evaluation, end = parse(text)
        assert (loss.kind, loss.detail["nan"]) == ("loss", ["grad_norm"])
        assert (evaluation.kind, evaluation.detail["duration_s"]) == ("eval", 1.216)
        assert (end.kind, end.step, end.samples_per_s) == ("run_end", 471, 84.04)

    def test_a_summary_too_rounded_to_tell_its_steps_takes_the_bars_total(self) -> None:
        summary = (
            "{'train_runtime': '7767', 'train_samples_per_second': '4.12', "
            "'train_steps_per_second': '0.257', 'train_loss': '0.17', 'epoch': '142.9'}\n"
        )
        assert only(summary).step is None
        bar = "\r 50%|█████     | 1000/2000 [1:04:00<1:04:00,  3.84s/it]\n"
        tail = parse("{'loss': 1.0, 'epoch': 1.0}\n" + bar)
        assert [one.kind for one in tail] == ["loss", "progress"]
        # The bar is looked at when a take comes, as while a job runs.
        from slurm_io.joblog.tail import LogTail

        log = LogTail()
        log.feed(("{'loss': 1.0, 'epoch': 1.0}\n" + bar).encode())
        log.take()
        log.feed(summary.encode())
        [end] = log.take(last=True)
        assert (end.step, end.step_time_s) == (2000, pytest.approx(7767 / 2000))

    def test_an_epoch_that_goes_back_begins_another_training(self) -> None:
        line = "{{'loss': 1.0, 'learning_rate': 1e-05, 'epoch': {}}}\n"
        runs = [one.run for one in parse("".join(map(line.format, (0.5, 1.0, 0.5, 1.0))))]
        assert runs == [1, 1, 2, 2]

    def test_the_bar_is_the_trainers_once_it_has_printed_a_dict(self) -> None:
        bar = " 20%|██        | 20/100 [00:50<03:20,  2.50s/it]\n"
        dict_line = "{'loss': 1.0, 'learning_rate': 1e-05, 'epoch': 0.5}\n"
        sources = [one.source for one in parse(dict_line + bar) if one.kind == "progress"]
        assert sources == ["hf_trainer"]

    @pytest.mark.parametrize("line", ["{'loss': 1.0}", "{'lr': 3}", "config: {'loss': 'mse'}"])
    def test_other_dicts_are_none(self, line: str) -> None:
        assert parse(line + "\n") == []


class TestLightning:
    def test_rich_bar_with_escapes(self) -> None:
        bar = (
            "\x1b[2KEpoch 4/9  \x1b[38;2;98;6;224m━━━━━━\x1b[0m\x1b[37m╺━━\x1b[0m 232/291 "
            "\x1b[38;5;245m0:00:33 • 0:00:09\x1b[0m 7.00it/s v_num: 3 loss: 0.398 \r"
        )
        record = only(bar)
        assert (record.source, record.step) == ("lightning", 4 * 291 + 232)
        assert record.step_time_s == pytest.approx(1 / 7)
        assert (record.detail["elapsed_s"], record.detail["unit"]) == (33, "batch")

    def test_a_loader_without_length(self) -> None:
        record = only("Epoch 1: |          | 250/? [00:10<?, 25.00it/s, v_num=0]\n")
        assert (record.step, record.step_time_s) == (None, 0.04)
        assert record.detail["elapsed_steps"] == 250

    @pytest.mark.parametrize(
        "bar",
        [
            "Validation DataLoader 0:  50%|█████     | 5/10 [00:01<00:01,  5.00it/s]",
            "Sanity Checking DataLoader 0: 100%|██████████| 2/2 [00:00<00:00, 10.00it/s]",
            "Map (num_proc=8):  50%|█████     | 500/1000 [00:01<00:01, 500.00 examples/s]",
            "Loading checkpoint shards:  50%|█████     | 1/2 [00:05<00:05,  5.00s/it]",
            "model.safetensors:  50%|█████     | 1/2 [00:05<00:05,  5.00s/it]",
        ],
    )
    def test_other_bars_are_no_training(self, bar: str) -> None:
        assert parse(bar + "\n") == []


class TestNemo:
    def test_a_bar_of_a_later_epoch_takes_the_step_from_the_global_step(self) -> None:
        bar = (
            "Epoch 2:  10%|█         | 5/50 [00:10<01:30, v_num=1, reduced_train_loss=2.0, "
            "global_step=104.0, consumed_samples=840.0, train_step_timing in s=2.000]\n"
        )
        assert only(bar).step == 105
        assert only(bar.replace("104.0", "1e+5")).step is None

    def test_lines_count_from_zero(self) -> None:
        record = only(ONE_OF_EACH["nemo"].replace("iteration 20", "iteration 0") + "\n")
        assert record.detail["zero_based"] is True
        assert record.detail["total_steps"] == 1000
        assert record.samples_per_s == pytest.approx(64 / 2.5)

    @pytest.mark.parametrize("count", ["-1794.0", "1e40", "794.5"])
    def test_a_count_that_cannot_be_is_no_step(self, count: str) -> None:
        bar = (
            "Epoch 0:   1%|          | 99/77225 [9:07:58<878:01:48, 41.36s/it, "
            f"reduced_train_loss=3.090, global_step={count}, consumed_samples=1.63e+6]\n"
        )
        assert [record.step for record in parse(bar, "progress")] == [None]


class TestTorchtitan:
    def test_words_per_second_of_older_versions(self) -> None:
        line = "step:  1  loss: 10.9  memory: 9.45GiB(9.96%)  wps: 1,234,567  mfu: 1.0%\n"
        assert values(only(line)) == (1, None, None, 1234567)

    def test_coarse_stamps_prove_no_step_time(self) -> None:
        line = "2025-06-01 10:00:0{} - root - INFO - step: {}  loss: 1.0  tps: 5\n"
        assert [one.step_time_s for one in steps(line.format(1, 1) + line.format(3, 2))] == [
            None, None,
        ]  # fmt: skip

    def test_coarse_stamps_over_many_steps_do(self) -> None:
        line = "2025-06-01 10:0{}:00 - root - INFO - step: {}  loss: 1.0  tps: 5\n"
        assert steps(line.format(1, 10) + line.format(3, 100))[1].step_time_s == pytest.approx(
            120 / 90
        )


class TestComposer:
    def test_the_clock_between_two_blocks_is_the_step_time(self) -> None:
        block = (
            "[epoch=0/1][batch=7/50]:\n\t time/batch: {0}\n\t throughput/batches_per_sec: 0.5\n"
            "\t wall_clock/train: {1}\n"
        )
        first, second = steps(block.format(2, "10.0") + block.format(4, "15.0"))
        assert (first.step, first.step_time_s, first.detail["basis"]) == (3, 2.0, "smoothed")
        assert (second.step, second.step_time_s, second.detail["basis"]) == (5, 2.5, "interval")
        assert second.detail["interval_steps"] == 2

    def test_a_block_ends_at_the_first_other_line(self) -> None:
        text = (
            "[batch=1/9]:\n\t Train throughput/tokens_per_sec: 5.0\nhello\n"
            "\t Train throughput/samples_per_sec: 7.0\n"
        )
        assert only(text).samples_per_s is None

    def test_a_block_without_throughput_is_none(self) -> None:
        assert parse("[batch=1/9]:\n\t Train loss/train/total: 5.0\nhello\n") == []


class TestFairseq:
    def test_json(self) -> None:
        line = (
            '2025-06-01 10:00:07 | INFO | train_inner | {"epoch": 27, "update": 26.267, "loss": '
            '"8.206", "ppl": "132.47", "wps": "1195.4", "ups": "1.62", "wpb": "738.1", "bsz": '
            '"46.4", "num_updates": "33700", "lr": "0.00017", "train_wall": "61"}\n'
        )
        record = only(line)
        assert record.step == 33700
        assert record.step_time_s == pytest.approx(738.1 / 1195.4)
        assert record.tokens_per_s == 1195.4

    def test_older_lines_count_within_the_epoch(self) -> None:
        line = "| epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, wpb=908, bsz=32, lr=0.001\n"
        assert only(line).step == 9 * 8223 + 2000

    @pytest.mark.parametrize(
        "line",
        [
            (
                '| INFO | valid | {"epoch": 1, "valid_loss": "4.0", "valid_wps": "9000", '
                '"valid_num_updates": "100"}'
            ),
            (
                "| INFO | valid | epoch 001 | valid on 'valid' subset | loss 5 | wps 900 | "
                "num_updates 9"
            ),
        ],
    )
    def test_validation_is_no_step(self, line: str) -> None:
        assert parse(line + "\n") == []


class TestMMEngine:
    @pytest.mark.parametrize(
        ("line", "step"),
        [
            ("Iter(train) [720/768]  lr: 2e-06  time: 0.7224  data_time: 0.0059  loss: 0.01", 720),
            (("mmdet - INFO - Epoch [2][1500/14659]\tlr: 0.01, eta: 1 day, 12:59:34, time: 0.7224, "
             "data_time: 0.0059, memory: 3028, loss: 1.76"), 14659 + 1500),
            (("[11/01 11:27:04 d2.utils.events]: eta: 8:05:12  iter: 1259  total_loss: 1.012  "
             "time: 0.7224  last_time: 0.7  data_time: 0.0059  last_data_time: 0.1"), 1259),
        ],
        ids=["iterations", "older", "detectron2"],
    )  # fmt: skip
    def test_variants(self, line: str, step: int) -> None:
        record = only(line + "\n")
        assert (record.step, record.step_time_s) == (step, 0.7224)
        assert record.detail["data_wait_s"] == 0.0059

    @pytest.mark.parametrize("mode", ["Epoch(val) [50][6/6]", "Epoch(test) [11/11]"])
    def test_validation_is_no_step(self, mode: str) -> None:
        assert parse(f"{mode}    mAP: 0.25  data_time: 0.0224  time: 0.0578\n") == []


def test_openclip_without_one_batch_that_fits_has_no_step() -> None:
    line = "Train Epoch: 0 [ 512/4096 (12%)] Data (t): 0.1 Batch (t): 1.0, 100/s LR: 0.1\n"
    record = only(line)
    assert (record.step, record.step_time_s, record.samples_per_s) == (None, 1.0, 100)
    assert "global_batch" not in record.detail


def test_imagenet_means_are_a_clock_of_all_batches() -> None:
    """Of ten batches one is printed: two slow ones among the others show in the means only."""
    line = "Epoch: [1][{}/5005]\tTime {} ({})\tData 0.001 ({})\tLoss 6.9 (6.9)\n"
    first, second = steps(
        line.format(99, "0.150", "0.150", "0.001") + line.format(199, "0.150", "0.300", "0.150")
    )
    passed_s = second.detail["elapsed_s"] - first.detail["elapsed_s"]
    passed = second.detail["elapsed_steps"] - first.detail["elapsed_steps"]
    assert passed_s / passed == pytest.approx(0.45)
    assert second.detail["data_wait_mean_s"] == 0.15


def test_a_plain_loop_with_epochs() -> None:
    record = only("Epoch 2/3:  50%|█████     | 42/84 [00:35<00:35,  1.20it/s]\n")
    assert (record.source, record.step) == ("tqdm", None)
    assert (record.detail["epoch"], record.detail["step_in_epoch"]) == (2, 42)
