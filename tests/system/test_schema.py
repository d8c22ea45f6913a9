# SPDX-License-Identifier: Apache-2.0
"""schema/ration.schema.json agrees with the validator: it accepts every good
file of tests/rules, and rejects every bad one whose fault a schema can see."""

import itertools
import json
import pathlib
import random
import re
import subprocess

import jsonschema
import pytest
import yaml

from ration_command import RATION

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "tests" / "rules"

# Faults of meaning, which only the validator sees: texts of limits and addresses, names
# that refer to others, settings that do not suit each other.
SEMANTIC = set(
    """
    adapt_adaptive adapt_calendar adapt_duration_of_share adapt_no_signals adapt_nothing adapt_percent_of_duration
    adapt_restore_same_side adapt_restore_side adapt_restore_soon adapt_share_above_all adapt_unknown_signal
    adapt_unlimited elastic_adaptive_tier elastic_calendar elastic_steps signal_expires_early signal_expires_long
    signal_of_nothing signal_over_short signal_url_port
    adaptive_async adaptive_min_above_max adaptive_priority adaptive_soft adaptive_text_from_0 adaptive_text_reversed
    algorithm_burst algorithm_calendar algorithm_concurrency_rate algorithm_not_used
    geo_asn_letters geo_asn_name geo_continent_unknown geo_country_name geo_country_uk geo_database_is_folder
    geo_database_is_text geo_database_missing geo_of_geo geo_of_ip_itself geo_of_method geo_of_unknown
    geo_region_alone rows_any_any rows_bad_country rows_empty_value rows_one_value rows_three_values rows_twice
    rows_default_one_value rows_unknown_default
    earn_adaptive earn_calendar earn_every_long earn_every_short earn_forget_soon earn_lost_by_long earn_no_key
    earn_nothing earn_steps earn_unlimited earn_with_elastic earn_with_elastic_default
    escalate_after_long escalate_after_short escalate_ban_above_up_to escalate_ban_long
    escalate_ban_short escalate_forget_short escalate_no_key usage_yes usage_zone_unknown
    async_concurrent attribute_path_after_stars attribute_path_dots attribute_path_without cost_max_below_default
    charge_on_concurrent charge_on_queue
    cost_never_fits deny_bad_network duplicate_key key_alternative_twice key_prefix_of_text
    lease_long lease_without limit_quoted limit_same_bucket limit_same_window
    limit_burst_equals limit_two_concurrent limit_unlimited_among limit_zone log_too_long log_too_long_soft
    name_twice priority_unknown_default spread_without tiers_by_address tiers_no_sets
    throttle_from_all throttle_no_delay tiers_same_method tiers_unknown_default tiers_unknown_set too_many_attributes trusted_bad
    trusted_twice when_bad_address when_bad_network when_cidr_on_text when_header_twice when_host_comma
    when_ip_comma when_method_comma
    queue_max_wait_long queue_unlimited wait_in_vain wait_line_long when_ip_wildcard when_network_bits when_path_brace when_path_dots when_path_escaped_star
    when_path_parameters when_path_stars when_above_quoted when_above_below_same
    when_below_above_crossed when_below_infinite when_below_point
    """.split()
)


def schema():
    return json.loads((ROOT / "schema" / "ration.schema.json").read_text())


def load(path):
    """A file as an editor sees it."""
    return yaml.safe_load(path.read_text())


def files(folder):
    found = sorted(p for p in (RULES / folder).iterdir() if p.suffix in (".yaml", ".json"))
    return [pytest.param(p, id=p.stem) for p in found]


VALIDATOR = jsonschema.Draft202012Validator(schema())


def test_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("path", files("good") + files("warn"))
def test_good_files_are_accepted(path):
    assert [e.message for e in VALIDATOR.iter_errors(load(path))] == []


@pytest.mark.parametrize("path", files("bad"))
def test_bad_files_are_rejected_unless_only_their_meaning_is_bad(path):
    assert VALIDATOR.is_valid(load(path)) == (path.stem in SEMANTIC)


def test_every_semantic_fault_has_a_file():
    assert SEMANTIC <= {p.stem for p in (RULES / "bad").iterdir()}


def test_schema_and_manual_have_the_algorithms_of_the_program():
    rules = "limits: [{name: a, key: ip, limit: 5 per minute, algorithm: fair}]\n"
    report = subprocess.run([RATION, "lint", "-"], input=rules, capture_output=True, text=True).stdout
    allowed = report.split('unknown algorithm "fair"; allowed here: ')[1].split("\n")[0].split(", ")
    assert schema()["$defs"]["rule"]["properties"]["algorithm"]["enum"] == allowed
    table = (RULES.parents[1] / "docs" / "rules.md").read_text().partition("\n### Algorithms\n")[2].partition("\n#")[0]
    assert [name for name in allowed if f"| `{name}`" not in table] == []


# --- texts of limits ----------------------------------------------------------------------------

AMOUNTS = ["5", "1_000", " 10"]
PER = [" per ", "/", " / ", " r/", "r/", " req/", " requests per ", " Request / ", " PER "]
PERIODS = ["minute", "min", "s", "15 minutes", "7d", "500ms", "Hour", "1_0 sec"]
OPTIONS = ["", " ", " burst 20", " queue 5", " in steps of 1s", " burst 20 in steps of 1 s"]
OTHERS = ["unlimited", "Unlimited ", "20 concurrent", "20concurrent", "5 per calendar month",
          "5/calendar day Europe/Rome", "5 r/calendar week UTC"]
TEXTS = ["".join(parts) for parts in itertools.product(AMOUNTS, PER, PERIODS, OPTIONS)] + OTHERS


def mutants(texts, count):
    """The texts with a character dropped, doubled, replaced or swapped."""
    chance = random.Random(1)
    for _ in range(count):
        text = chance.choice(texts)
        at = chance.randrange(len(text))
        other = chance.choice(" /_0s" + text)
        yield chance.choice([text[:at] + text[at + 1:], text[:at] + text[at] + text[at:],
                             text[:at] + other + text[at + 1:], text[:at] + other + text[at:]])


def accepted(texts, folder):
    """Those that `ration lint` accepts; a report has at most 100 errors."""
    good = []
    for first in range(0, len(texts), 100):
        batch = texts[first:first + 100]
        rules = [f"- {{name: r{i}, limit: {json.dumps(text)}}}" for i, text in enumerate(batch)]
        (folder / "rules.yaml").write_text("\n".join(["limits:", *rules]))
        lint = subprocess.run([RATION, "lint", "rules.yaml"], cwd=folder, text=True,
                              capture_output=True)
        report = lint.stdout + lint.stderr
        assert lint.returncode in (0, 2), report
        wrong = {int(line) - 2 for line in re.findall(r"^rules.yaml:(\d+):\d+: error", report, re.M)}
        good += [text for i, text in enumerate(batch) if i not in wrong]
    return good


def test_the_schema_accepts_each_limit_that_the_program_accepts(tmp_path):
    limits = jsonschema.Draft202012Validator(
        {"$ref": "#/$defs/limit_text", "$defs": schema()["$defs"]})
    good = accepted(TEXTS + list(mutants(TEXTS, 3000)), tmp_path)
    assert set(OTHERS) | {"5/min", "5 r/s", " 10 requests per 15 minutes burst 20"} <= set(good)
    assert len(good) > 1000
    assert [text for text in good if not limits.is_valid(text)] == []
