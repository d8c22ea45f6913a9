# SPDX-License-Identifier: Apache-2.0
"""docs/migrating.md: two rate limit filters in a real Envoy, of which one refuses and the other only counts. The old
service is a second rationd here: what matters is which of the two Envoy obeys."""

import re

import pytest
import yaml

from daemon import ROOT, Daemon
from test_envoy_rls import RULES, cluster, envoy, get, pytestmark

PAGE = (ROOT / "docs/migrating.md").read_text()
FILTERS = yaml.safe_load(re.search(r"^```yaml\n(http_filters:.*?)^```$", PAGE, re.M | re.S)[1])["http_filters"]
LOOSE = RULES.replace("requests_per_unit: 2", "requests_per_unit: 1000")


def swapped():
    """Step 4: the old one only counts."""
    by_name = {f["name"]: dict(f["typed_config"]) for f in FILTERS}
    by_name["old"]["filter_enforced"] = by_name["ration"].pop("filter_enforced")
    return [{"name": name, "typed_config": settings} for name, settings in by_name.items()]


@pytest.mark.parametrize("strict", ["old", "ration"])
@pytest.mark.parametrize("decides", ["old", "ration"])
def test_one_filter_refuses_and_the_other_only_counts(tmp_path, decides, strict):
    """One of the services allows two requests, the other a thousand."""
    for name in ("old", "ration"):
        (tmp_path / name).mkdir()
    options = ["--grpc", "127.0.0.1:0"]
    with Daemon(tmp_path / "old", RULES if strict == "old" else LOOSE, options) as old, \
            Daemon(tmp_path / "ration", RULES if strict == "ration" else LOOSE, options) as ration:
        def change(settings):
            manager = settings["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
            manager["http_filters"][:1] = FILTERS if decides == "old" else swapped()
            settings["static_resources"]["clusters"].append(cluster("ratelimit", old.addresses["grpc"], http2=True))

        with envoy(tmp_path, ration.addresses["grpc"], change=change) as edge:
            statuses = [get(edge, "/limited").status for _ in range(5)]
    assert statuses == ([200, 200, 429, 429, 429] if decides == strict else [200] * 5)
