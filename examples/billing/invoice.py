#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes invoices from a period of usage.

usage: ration usage --rule api --period last --csv | invoice.py PRICES [--draft]

PRICES is a JSON file such as prices.json. Prints one line of CSV for each client: what it used, how
that was corrected, what it owes. Amounts are exact decimals, rounded once, to cents. All sums are
checked against the export before anything is printed.

Exit status: 0 all billed; 1 units that belong to no client (`other`) were left out; 2 error.
"""

import csv
import datetime
import decimal
import io
import json
import sys
from decimal import Decimal

CENT = Decimal("0.01")
COLUMNS = ["rule", "client", "other", "period", "start", "end", "zone", "admitted", "refused", "corrected", "units"]


class Mistake(Exception):
    """Something that a person must look at before anybody is billed."""


def read_rows(stream):
    """The rows of an export. Names are bytes, whatever they are; surrogateescape keeps them."""
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="surrogateescape", newline="")
    reader = csv.DictReader(text, strict=True)
    if reader.fieldnames is None or not set(COLUMNS) <= set(reader.fieldnames):
        found = "nothing" if reader.fieldnames is None else repr(",".join(reader.fieldnames))
        raise Mistake(f"found {found} where an export has the names of its columns; did ration usage --csv fail?")
    rows = list(reader)
    for row in rows:
        if None in row or None in row.values():
            raise Mistake(f"the row of {row['client']!r} does not have {len(reader.fieldnames)} fields; is the export cut?")
        for column in ("admitted", "refused", "corrected", "units"):
            row[column] = int(row[column])
        if row["admitted"] + row["corrected"] != row["units"]:
            raise Mistake(f"{row['client']!r}: units are not what was admitted and corrected")
    return rows


def check_period(rows, draft):
    periods = {(row["period"], row["end"]) for row in rows}
    if len(periods) > 1:
        raise Mistake(f"more than one period: {', '.join(sorted(p for p, _ in periods))}; "
                      "export one, for example with --period last")
    for period, end in periods:
        ends = datetime.datetime.strptime(end, "%Y-%m-%dT%H:%M:%S%z")
        if ends > datetime.datetime.now(datetime.timezone.utc) and not draft:
            raise Mistake(f"{period} is not over before {end}; --draft prices it as it is now")


def price(plan, units):
    """The fee, and each unit at the price of the tier that it falls into."""
    amount, below = Decimal(plan["fee"]), 0
    for tier in plan["tiers"]:
        up_to = tier["up_to"] if tier["up_to"] is not None else max(units, below)
        amount += max(0, min(units, up_to) - below) * Decimal(tier["per_unit"])
        below = max(below, up_to)
    if units > below:
        raise Mistake(f"there are prices up to {below} units, and it used {units}; end the tiers with \"up_to\": null")
    return amount.quantize(CENT, decimal.ROUND_HALF_UP)


def explain(error):
    """What to say of an error in the prices."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    if isinstance(error, decimal.InvalidOperation):
        return "a price is not a number; write for example \"0.004\""
    return str(error)


def invoices(rows, prices):
    """One line for each client, in the order of names. Rows of one client are added up."""
    clients = {}
    for row in rows:
        if row["rule"] != prices["rule"]:
            raise Mistake(f"rule {row['rule']!r} has no prices; export --rule {prices['rule']} only")
        if row["other"] == "false":
            line = clients.setdefault(row["client"], {"period": row["period"], "client": row["client"],
                                                      "admitted": 0, "corrected": 0, "units": 0})
            for column in ("admitted", "corrected", "units"):
                line[column] += row[column]
    for name, line in sorted(clients.items()):
        line["plan"] = prices["clients"].get(name, prices["default_plan"])
        if line["units"] < 0:
            raise Mistake(f"{name!r}: corrections leave {line['units']} units; a bill cannot be below 0")
        if line["plan"] not in prices["plans"]:
            raise Mistake(f"{name!r} has the plan {line['plan']!r}, which has no prices")
        try:
            line["amount"] = price(prices["plans"][line["plan"]], line["units"])
        except (Mistake, KeyError, TypeError, decimal.InvalidOperation) as error:
            raise Mistake(f"{name!r}, plan {line['plan']!r}: {explain(error)}") from error
        line["currency"] = prices["currency"]
    return [line for _, line in sorted(clients.items())]


def main(args):
    draft = "--draft" in args
    names = [arg for arg in args if arg != "--draft"]
    if len(names) != 1 or names[0].startswith("-"):
        raise Mistake("give one file of prices, and the export on standard input; there is one option, --draft")
    with open(names[0], encoding="utf-8") as file:
        try:
            prices = json.load(file)
        except ValueError as error:
            raise Mistake(f"{names[0]} is no JSON: {error}") from error
    for member in ("currency", "rule", "plans", "default_plan", "clients"):
        if member not in prices:
            raise Mistake(f"{names[0]} has no {member!r}; examples/billing/prices.json shows what a file of prices has")
    rows = read_rows(sys.stdin.buffer)
    check_period(rows, draft)
    lines = invoices(rows, prices)
    other = sum(row["units"] for row in rows if row["other"] == "true")
    if sum(line["units"] for line in lines) + other != sum(row["units"] for row in rows):
        raise Mistake("the invoices do not add up to the export")
    out = io.TextIOWrapper(sys.stdout.buffer, encoding="utf-8", errors="surrogateescape", newline="")
    writer = csv.DictWriter(out, ["period", "client", "plan", "admitted", "corrected", "units", "amount", "currency"])
    writer.writeheader()
    writer.writerows(lines)
    out.flush()
    if other:
        print(f"invoice.py: {other} units belong to no client (other): give rationd more --usage-memory",
              file=sys.stderr)
    return 1 if other else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except (Mistake, OSError, KeyError, ValueError, csv.Error) as error:
        print(f"invoice.py: {error}", file=sys.stderr)
        sys.exit(2)
