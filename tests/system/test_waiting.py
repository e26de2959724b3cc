"""How threads wait is decided once, before torch is loaded, and a person's own choice stands."""

import os
import subprocess
import sys

import pytest

from regard.system.waiting import CHOSEN_BY_USER, POLICY, wait_asleep


@pytest.fixture
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CHOSEN_BY_USER:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("nothing_chosen")
def test_threads_wait_asleep_where_nothing_was_chosen() -> None:
    wait_asleep()
    assert POLICY.items() <= os.environ.items()


@pytest.mark.usefixtures("nothing_chosen")
@pytest.mark.parametrize("name", CHOSEN_BY_USER)
def test_a_choice_of_the_user_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    wait_asleep()
    assert {one for one in CHOSEN_BY_USER if one in os.environ} == {name}


def test_the_command_decides_before_torch_is_loaded() -> None:
    program = (
        "import os, sys\n"
        "import regard.commands.app as app\n"
        "assert 'torch' not in sys.modules\n"
        "app.end_well = lambda command: None\n"
        "app.main()\n"
        "assert 'torch' not in sys.modules\n"
        "print(os.environ['OMP_WAIT_POLICY'])\n"
    )
    own = {name: value for name, value in os.environ.items() if name not in CHOSEN_BY_USER}
    result = subprocess.run(
        [sys.executable, "-c", program], env=own, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "passive"


def test_tests_and_benchmarks_run_under_the_policy() -> None:
    import benchmarks  # noqa: F401

    assert any(name in os.environ for name in CHOSEN_BY_USER)
