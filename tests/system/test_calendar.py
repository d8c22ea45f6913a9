# SPDX-License-Identifier: Apache-2.0
"""Time zones and calendar boundaries against Python's own, which reads the same
files: random instants, and every boundary of some years, in random zones.

The program is tests/programs/print_calendar.c; RATION_BUILD names the build directory.
"""

import os
import pathlib
import random
import subprocess
import zoneinfo
from datetime import date, datetime, timedelta, timezone

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRINT_CALENDAR = pathlib.Path(os.environ.get("RATION_BUILD", ROOT / "build")).resolve() / "tests/print_calendar"

SEED = int(os.environ.get("RATION_SEED", "20260101"))
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
YEAR_S = 31556952
UNITS = {1: "day", 2: "week", 3: "month", 4: "year"}
# Clocks that skip midnight, show it twice, skip a day, are set by half an hour
# or two, at odd times of day, or by a rule of their own.
ODD = [
    "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Kolkata",
    "Australia/Lord_Howe", "Antarctica/Troll", "America/Nuuk", "Asia/Gaza", "Africa/Casablanca",
    "America/St_Johns", "Africa/Cairo", "Europe/Dublin", "Asia/Beirut", "America/Santiago",
    "Pacific/Kiritimati",
]


def ask(questions):
    questions = list(questions)
    text = "".join(question + "\n" for question in questions)
    done = subprocess.run([PRINT_CALENDAR], input=text, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    answers = done.stdout.splitlines()
    assert len(answers) == len(questions)
    return answers


def zone_names():
    return sorted(zoneinfo.available_timezones() - {"localtime", "posixrules", "Factory"})


def offset_at(zone, seconds):
    return (EPOCH + seconds * SECOND).astimezone(zone).utcoffset() // SECOND


def begin_of_day(zone, day):
    """The first instant at which clocks show the day's midnight or later."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    early, late = (
        (midnight.replace(fold=fold).astimezone(timezone.utc) - EPOCH) // SECOND for fold in (1, 0)
    )
    if late <= early:  # it exists; late is the first of two, or the only one
        return late
    # It is skipped: fold 1 reckons with the offset after the change, and falls
    # before it; fold 0 the other way round. The change lies between.
    before = offset_at(zone, early)
    while late - early > 1:
        middle = (early + late) // 2
        if offset_at(zone, middle) == before:
            early = middle
        else:
            late = middle
    return late


def first_day(unit, day):
    if unit == 2:
        return day - timedelta(days=day.weekday())
    return {1: day, 3: day.replace(day=1), 4: day.replace(month=1, day=1)}[unit]


def next_unit(unit, day):
    return first_day(unit, day + timedelta(days={1: 1, 2: 7, 3: 31, 4: 366}[unit]))


def boundaries(zone, unit, from_s, years):
    """As rn_calendar_ends promises them."""
    local = (EPOCH + from_s * SECOND).astimezone(zone)
    day = first_day(unit, date(local.year, local.month, local.day))
    found = []
    while not found or found[-1] < from_s + years * YEAR_S:
        begin = begin_of_day(zone, day)
        if begin <= from_s:
            found = [begin]
        elif begin > found[-1]:
            found.append(begin)
        day = next_unit(unit, day)
    return found


def test_offsets_agree_with_python():
    rng = random.Random(SEED)
    names = zone_names()
    pairs = [(rng.choice(names), rng.randrange(-3_000_000_000, 4_500_000_000)) for _ in range(200)]
    pairs += [(name, rng.randrange(0, 4_500_000_000)) for name in ODD for _ in range(20)]
    answers = ask(f"offset {name} {seconds}" for name, seconds in pairs)
    for (name, seconds), answer in zip(pairs, answers):
        assert int(answer) == offset_at(zoneinfo.ZoneInfo(name), seconds), (name, seconds)


def test_boundaries_agree_with_python():
    rng = random.Random(SEED)
    names = ODD + rng.sample(zone_names(), 25)
    asked = [(name, unit, rng.randrange(0, 4_000_000_000), 1 + 9 * (unit > 2))
             for name in names for unit in UNITS]
    asked += [("Pacific/Apia", 1, 1_325_000_000, 1), ("Pacific/Kwajalein", 1, 745_000_000, 1)]
    answers = ask(f"ends {name} {unit} {from_s} {years}" for name, unit, from_s, years in asked)
    for (name, unit, from_s, years), answer in zip(asked, answers):
        expected = boundaries(zoneinfo.ZoneInfo(name), unit, from_s, years)
        assert [int(end) for end in answer.split()] == expected, (name, UNITS[unit], from_s)
