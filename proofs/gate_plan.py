"""Which runs of WP judge the targets, and what they say together.

A goal that a prover finds, it finds within a second or two; one that it does not find costs its whole time. So one
prover is asked for everything, and the others where it is not enough:

1. cvc4, every goal and smoke test;
2. all provers: CVC5, the same;
3. where no run so far has proved a function whole: all three, with the full time, until one of them succeeds;
4. all provers: z3, then each with the full time, for the functions that still hold a goal which Qed left open and
   fewer than two proved.

A prover that is asked for a function's goals is asked for its smoke tests too: one that finds a contradiction could
prove anything with it. Runs are cut to about a hundred goals, so that two cores stay busy to the end.
"""
import concurrent.futures
import tempfile

import gate_run

CHUNK = 100
FIRST_SECONDS = 10


class Judged:
    """What all runs on one target say. `problems` is empty only where all that was asked is proved."""

    def __init__(self, target):
        self.target = target
        self.votes = {name: {} for name in target["names"]}  # function -> {goal instance: who proved it}
        self.smoke = {name: {} for name in target["names"]}  # function -> {smoke test: passed with every prover asked}
        self.asked = {name: set() for name in target["names"]}  # function -> provers that had its smoke tests
        self.whole = {}  # function -> rows of Frama-C's properties, of a run that proved all goals of it
        self.last = {}  # function -> rows of the last run
        self.considered = []  # (file, function, kind, text): believed without proof
        self.defined = set()  # functions that Frama-C saw a body of
        self.commands = []
        self.seconds = 0.0
        self.problems = []

    def add_problem(self, text):
        if text not in self.problems:
            self.problems.append(text)

    def take(self, names, run, core):
        self.commands.append(run.command)
        self.seconds += run.seconds
        self.defined |= run.defined
        for problem in run.problems:
            self.add_problem(problem)
        for name in names:
            goals, votes = run.goals.get(name, {}), self.votes[name]
            if votes and set(votes) != set(goals):
                self.add_problem(f"two runs have different goals: {name}: {sorted(set(votes) ^ set(goals))[:3]}")
            for goal, who in goals.items():
                votes.setdefault(goal, set()).update([who] if who else [])
            for test, passed in run.smoke.get(name, {}).items():
                self.smoke[name][test] = passed and self.smoke[name].get(test, True)
            self.last[name] = [row for row in run.properties if row["function"] == name]
            if goals and all(goals.values()):
                self.whole[name] = self.last[name]
        self.considered += [(row["file"], row["function"], row["property kind"], row["property"])
                            for row in run.properties
                            if row["status"] == "Considered valid" and "FRAMAC_SHARE" not in row["directory"]
                            and row["function"] not in core]

    def counts(self, name):
        """goals, proved, smoke, passed"""
        votes, smoke = self.votes[name], self.smoke[name]
        return [len(votes), sum(1 for who in votes.values() if who), len(smoke), sum(smoke.values())]

    def totals(self):
        return [sum(column) for column in zip(*(self.counts(name) for name in self.target["names"]))]

    def judge(self, all_provers):
        for name in self.target["names"]:
            for goal, who in self.votes[name].items():
                if not who:
                    self.add_problem(f"goal not proved: {name}: {goal}")
                elif all_provers and lacks_votes(who):
                    self.add_problem(f"only one prover agrees: {name}: {goal}: {', '.join(who)}")
            for test, passed in self.smoke[name].items():
                if not passed:
                    self.add_problem(f"smoke test failed (contract or path cannot happen): {name}: {test}")
            self.judge_properties(name)

    def judge_properties(self, name):
        rows = self.whole.get(name) or self.last.get(name, [])
        for row in rows:
            if row["status"] not in gate_run.ACCEPTED_STATUS and row["property kind"] != "precondition":
                self.add_problem(f"property {row['status']}: {name}: {row['property kind']}: {row['property'][:160]}")
        if not {"assigns clause", "postcondition"} <= {row["property kind"] for row in rows}:
            self.add_problem(f"no contract (assigns and ensures): {name}")


def lacks_votes(who):
    return "qed" not in who and len(who) < 2


def chunks_of(target):
    """The target's functions in groups of about CHUNK goals, the largest first."""
    groups = []
    for entry in sorted(target["functions"], key=lambda f: -f.get("floor", 0)):
        goals = entry.get("floor", 0)
        room = next((g for g in groups if g[0] + goals <= CHUNK), None)
        if room:
            room[0] += goals
            room[1].append(entry["name"])
        else:
            groups.append([goals, [entry["name"]]])
    return groups


class Plan:
    """options: quick, all_provers, seconds (the full time), jobs, core (names of the core's functions)."""

    def __init__(self, root, targets, options):
        self.root, self.options = root, options
        self.judged = [Judged(target) for target in targets]
        self.config = None

    def run(self):
        with tempfile.TemporaryDirectory(prefix="nxmem-why3-") as folder:
            self.config = gate_run.write_why3_config(folder)
            first = min(FIRST_SECONDS, self.options["seconds"])
            groups = [(goals, judged, names) for judged in self.judged for goals, names in chunks_of(judged.target)]
            groups.sort(key=lambda group: -group[0])
            provers = ["cvc4", "CVC5"] if self.options["all_provers"] else ["cvc4"]
            self.phase([(judged, names, prover, first) for prover in provers for _, judged, names in groups])
            self.phase(self.jobs_for(self.not_whole, "cvc4,z3,CVC5", self.options["seconds"]))
            if self.options["all_provers"]:
                self.phase(self.jobs_for(self.without_votes, "z3", first))
                for prover in gate_run.PROVERS:
                    self.phase(self.jobs_for(self.without_votes, prover, self.options["seconds"]))
        for judged in self.judged:
            judged.judge(self.options["all_provers"])
        return self.judged

    @staticmethod
    def not_whole(judged, name):
        return name not in judged.whole

    @staticmethod
    def without_votes(judged, name):
        return any(lacks_votes(who) for who in judged.votes[name].values())

    def jobs_for(self, wanted, provers, seconds):
        return [(judged, [name], provers, seconds) for judged in self.judged for name in judged.target["names"]
                if wanted(judged, name)]

    def phase(self, jobs):
        if not jobs:
            return
        done = 0
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.options["jobs"]) as pool:
            waiting = {pool.submit(self.run_job, *job): job for job in jobs}
            for future in concurrent.futures.as_completed(waiting):
                judged, names, provers, _ = waiting[future]
                run = future.result()
                judged.take(names, run, self.options["core"])
                done += 1
                self.say(f"{done}/{len(jobs)}", judged, names, provers, run)

    def run_job(self, judged, names, provers, seconds):
        asked = set(provers.split(","))
        new = any(not asked <= judged.asked[name] for name in names)
        for name in names:
            judged.asked[name] |= asked
        smoke = "none" if not new else "contracts" if self.options["quick"] else "all"
        options = {"provers": provers, "timeout": seconds, "smoke_timeout": 1, "par": 1, "smoke": smoke}
        return gate_run.run_wp(self.root, dict(judged.target, names=names), options, self.config)

    @staticmethod
    def say(place, judged, names, provers, run):
        goals = [who for name in names for who in run.goals.get(name, {}).values()]
        smoke = [passed for name in names for passed in run.smoke.get(name, {}).values()]
        print(f"[{place}] {judged.target['title']}, {provers}: {sum(1 for who in goals if who)}/{len(goals)} goals, "
              f"{sum(smoke)}/{len(smoke)} smoke, {names[0] if len(names) == 1 else f'{len(names)} functions'}, "
              f"{run.seconds:.0f} s", flush=True)
        for problem in run.problems:
            print(f"  {problem}", flush=True)
