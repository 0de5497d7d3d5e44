"""Ctrl-C waits while state changes."""

import os
import signal

import pytest

from solver.interrupts import held


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def pressed(times: int, done: list[str]) -> None:
    with held():
        for _ in range(times):
            press()
        done.append("the rest of the block")


def test_it_is_raised_at_the_end_of_the_block():
    done: list[str] = []

    with pytest.raises(KeyboardInterrupt):
        pressed(1, done)

    assert done == ["the rest of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_pressed_again_it_does_not_wait():
    done: list[str] = []

    with pytest.raises(KeyboardInterrupt):
        pressed(2, done)

    assert done == []


def test_it_is_forgotten_where_the_answer_is_ready():
    with held(drop=True):
        press()


def test_the_handler_of_another_program_stays():
    presses = []
    before = signal.signal(signal.SIGINT, lambda *_: presses.append(1))
    try:
        with held():
            press()
    finally:
        signal.signal(signal.SIGINT, before)

    assert presses == [1]
