"""A sweep on a terminal has a line for each run at work; in a log it has none."""

from lasting_work import Lasting, jobs

from winze.lab.runs.sweep import sweep
from winze.progress import Bar, Display, Pace, heard


def lines(display):
    return [(task.description, task.completed, task.total, task.fields["rate"]) for task in display.bars.tasks]


def test_each_run_at_work_has_a_line_with_its_rate_and_the_first_line_counts_all():
    with Display(["one", "two", "three"], progress=True) as display:
        display.hear(0, "begun")
        display.hear(2, Pace("training", 30, 100, 1234.5))
        assert lines(display) == [
            ("all runs", 0, 3, "0 of 3"),
            ("one", 0, None, ""),
            ("three, training", 30, 100, "1,234 samples/s"),
        ]
        display.end(0, None)
        assert lines(display) == [("all runs", 1, 3, "1 of 3"), ("three, training", 30, 100, "1,234 samples/s")]


def test_failures_are_told_at_once_on_a_terminal(capsys):
    with Display(["one"], progress=True) as display:
        display.end(0, ValueError("[no] luck"))
    assert "one failed: [no] luck" in capsys.readouterr().err


def test_a_log_stays_quiet(tmp_path, capsys):
    sweep(jobs(tmp_path / "marks", 2, bad=[1]), tmp_path / "runs", recipe=Lasting())
    assert capsys.readouterr() == ("", "")


def test_a_sweep_on_a_terminal_shows_every_run(tmp_path, capsys, monkeypatch):
    shown = []
    monkeypatch.setattr(Display, "hear", lambda self, index, word: shown.append((self.names[index], word)))
    sweep(jobs(tmp_path / "marks", 2), tmp_path / "runs", recipe=Lasting(), progress=True)
    begun = [(f"lasting/work smoke all seed {seed}", "begun") for seed in range(2)]
    assert [one for one in shown if one[1] == "begun"] == begun
    assert sum(isinstance(word, Pace) for _, word in shown) == 2


def test_a_training_tells_how_far_it_is_whether_or_not_it_shows_a_bar(capsys):
    told = []
    with heard(told.append), Bar(4, progress=False, samples=16, done=2) as bar:
        bar.advance()
        bar.advance()
    assert [(pace.done, pace.total) for pace in told] == [(3, 4), (4, 4)]
    assert all(pace.rate > 0 for pace in told)
    assert capsys.readouterr() == ("", "")
