#!/usr/bin/env python3
"""Do the checks see faults? Every patch in this folder plants one in a copy of the sources, which is
then built as far as one layer of checks needs it, and checked: a fault that no layer sees fails.

    mutants.py --source . --work build-mutants             each fault, in the first layer of its list
    mutants.py ... --all [--markdown FILE]                 every fault in every layer that could see it
    mutants.py ... --only NAME                             one fault

A patch starts with a line that says what is wrong, then `caught by: LAYER...` and perhaps
`kernels: LIST`, those that the conformance suite runs (mma unless told), and `test: NAME`, the part of
the suite that is to see it (test_conformance unless told). Conformance runs as it does
elsewhere, for a build of three formats, head dim 128 and one latent, and stops at the first wrong case.
Layers: see LAYERS. Exit: 0 all faults were caught, 1 not, 77 something needed is not here."""
import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time

FORMATS = "bf16,nvfp4,q8_0"
SMALL = ["-DKVGAUGE_PAIRS=" + FORMATS.upper().replace(",", ";"), "-DKVGAUGE_CUDA_SMALL=ON",
         "-DKVGAUGE_CUDA=OFF", "-DKVGAUGE_PTX_ARCHS=80"]
BUILDS = {"plain": ["-DCMAKE_BUILD_TYPE=Release"],
          "asan": ["-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1 -g", "-DKVGAUGE_SANITIZE=ON",
                   "-DKVGAUGE_PTX=OFF"]}
CONFORMANCE = {"KVGAUGE_CONFORMANCE_FORMATS": FORMATS, "KVGAUGE_CONFORMANCE_STOP": "1",
               "KVGAUGE_CONFORMANCE_DIMS": "128/128,320/256", "KVGAUGE_CONFORMANCE_CASES": "0"}
# name: (build, targets, command, environment); {b} is the build's folder, {s} the sources', {t} the test
LAYERS = {
    "golden": ("plain", ["test_golden"], ["{b}/tests/golden/test_golden"], {}),
    "unit": ("plain", ["{t}"], ["{b}/tests/{t}"], {}),
    "cpu": ("plain", ["{t}"], ["{b}/tests/conformance/{t}"], CONFORMANCE),
    "simt": ("plain", ["{t}_simt"], ["{b}/tests/simt/{t}_simt"], CONFORMANCE),
    "race": ("plain", ["{t}_race"], ["{b}/tests/simt/race/{t}_race"],
             dict(CONFORMANCE, KVGAUGE_SIMT_SHARED="101376")),
    "asan": ("asan", ["{t}_simt"], ["{b}/tests/simt/{t}_simt"],
             dict(CONFORMANCE, ASAN_OPTIONS="detect_stack_use_after_return=0")),
    "ptx": ("plain", ["{t}_ptx", "ptx_modules_80"], ["{b}/tests/ptx/{t}_ptx"],
            dict(CONFORMANCE, KVGAUGE_PTX_FOLDER="{b}/tests/ptx/80", KVGAUGE_PTX_SHARED="166912")),
    "static": (None, [], [sys.executable, "{s}/tests/static/static_report.py", "--source", "{s}", "--work",
                          "{b}/static", "--archs", "90", "--check", "{s}/tests/static/budget.json"], {}),
}
OF_KERNELS = ["simt", "race", "asan", "ptx"]  # that see a fault in kernels/gpu
COPIED = ["CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "bench", "cmake", "host",
          "kernels", "layouts", "tests", "scripts"]
LIMIT_S = 300  # a fault may make a check wait for ever


class Mutant:
    def __init__(self, path):
        self.name = os.path.basename(path)[:-len(".patch")]
        self.path = os.path.abspath(path)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.what = text.split("\n", 1)[0]
        self.layers = re.search(r"^caught by: (.*)$", text, re.M).group(1).split()
        kernels = re.search(r"^kernels: (.*)$", text, re.M)
        self.kernels = kernels.group(1) if kernels else "mma"
        test = re.search(r"^test: (.*)$", text, re.M)
        self.test = test.group(1) if test else "test_conformance"
        self.files = re.findall(r"^\+\+\+ b/(\S+)", text, re.M)

    def all_layers(self):
        of_gpu = all(file.startswith("kernels/gpu/") for file in self.files)
        more = OF_KERNELS if of_gpu and self.layers != ["static"] else []
        return self.layers + [layer for layer in more if layer not in self.layers]


class Tree:
    """A copy of the sources with its builds; faults are planted in it one after the other. Layers
    that share a tree share what was built of it."""

    def __init__(self, source, work):
        self.source, self.work = source, work
        self.files = os.path.join(work, "source")
        shutil.rmtree(work, ignore_errors=True)  # what was built may hold an earlier run's fault
        os.makedirs(self.files)
        for name in COPIED:
            path = os.path.join(source, name)
            copy = shutil.copytree if os.path.isdir(path) else shutil.copy2
            copy(path, os.path.join(self.files, name))
        self.log = open(os.path.join(work, "log.txt"), "w", encoding="utf-8")

    def call(self, command, environment=None, limit=None):
        self.log.write("$ %s\n" % " ".join(command))
        self.log.flush()
        try:
            return subprocess.run(command, stdout=self.log, stderr=self.log, timeout=limit,
                                  stdin=subprocess.DEVNULL, check=False,
                                  env=dict(os.environ, **(environment or {}))).returncode
        except subprocess.TimeoutExpired:
            return -1
        except OSError as error:
            self.log.write("%s\n" % error)
            return 126

    def build(self, build, targets):
        folder = os.path.join(self.work, build)
        if not os.path.exists(os.path.join(folder, "build.ninja")):
            if self.call(["cmake", "-G", "Ninja", "-S", self.files, "-B", folder, *SMALL,
                          *BUILDS[build]]) != 0:
                return False
        return self.call(["cmake", "--build", folder, "-j1", "--target", *targets]) == 0

    def check(self, layer, kernels, test):
        """'passed', 'caught', 'not built' or 'not run'."""
        build, targets, command, environment = LAYERS[layer]
        folders = {"b": os.path.join(self.work, build or ""), "s": self.files, "t": test}
        if build is not None and not self.build(build, [name.format(**folders) for name in targets]):
            return "not built"
        environment = {key: value.format(**folders) for key, value in environment.items()}
        environment["KVGAUGE_CONFORMANCE_KERNELS"] = kernels
        code = self.call([word.format(**folders) for word in command], environment, LIMIT_S)
        return {0: "passed", 77: "not run", 126: "not built"}.get(code, "caught")

    def plant(self, mutant):
        # Not by patch -R afterwards: a file's time must be later than what was built from it.
        return self.call(["patch", "-p1", "-F0", "-s", "-d", self.files, "-i", mutant.path]) == 0

    def restore(self, mutant):
        for file in mutant.files:
            shutil.copyfile(os.path.join(self.source, file), os.path.join(self.files, file))
            for rest in (".orig", ".rej"):
                if os.path.exists(os.path.join(self.files, file + rest)):
                    os.remove(os.path.join(self.files, file + rest))


def run_layer(tree, layer, mutants, found, unsound, say):
    """One layer's part of a build, for all the faults it is asked about; a test that does not pass
    without one joins `unsound`."""
    kernels = {"cpu": "tiled,simple"}.get(layer, "mma,simple")
    for test in sorted({mutant.test for mutant in mutants}):
        sound = tree.check(layer, kernels, test)
        sound = {"caught": "fails"}.get(sound, sound)
        say("no fault: " + test, layer, sound, 0)
        if sound not in ("passed", "not run"):
            unsound.append("%s: %s: %s without any fault" % (test, layer, sound))
            return
    for mutant in mutants:
        start = time.monotonic()
        planted = tree.plant(mutant)
        outcome = tree.check(layer, mutant.kernels, mutant.test) if planted else "the patch does not apply"
        found[mutant.name][layer] = outcome
        say(mutant.name, layer, outcome, time.monotonic() - start)
        tree.restore(mutant)


def complaints(mutants, found, every_layer):
    """Every layer that was to be asked has answered, and those that should see a fault saw it."""
    lines = []
    for mutant in mutants:
        for layer in mutant.all_layers() if every_layer else mutant.layers[:1]:
            if layer not in found[mutant.name]:
                lines.append("%s: %s was not asked" % (mutant.name, layer))
        for layer, outcome in found[mutant.name].items():
            if outcome in ("caught", "not run"):
                continue
            if layer in mutant.layers or outcome != "passed":
                lines.append("%s: %s %s" % (mutant.name, layer, outcome))
    return lines


def markdown(mutants, found):
    layers = [layer for layer in LAYERS if any(layer in row for row in found.values())]
    out = ["| fault | %s |" % " | ".join(layers), "|---|%s" % ("---|" * len(layers))]
    for mutant in mutants:
        row = found[mutant.name]
        out.append("| %s: %s | %s |" % (mutant.name, mutant.what, " | ".join(
            row.get(layer, "") for layer in layers)))
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", default=".")
    parser.add_argument("--work", default="build-mutants")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append")
    parser.add_argument("--markdown")
    arguments = parser.parse_args()
    for program in ("patch", "cmake", "ninja"):
        if shutil.which(program) is None:
            print("skipped: %s is not here" % program)
            return 77
    folder = os.path.dirname(os.path.abspath(__file__))
    mutants = [Mutant(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
               if name.endswith(".patch") and (not arguments.only or name[:-6] in arguments.only)]
    # Those that change the same files follow each other: the least is built again.
    mutants.sort(key=lambda mutant: (mutant.files, mutant.name))
    source, work = os.path.abspath(arguments.source), os.path.abspath(arguments.work)
    asked = {layer: [] for layer in LAYERS}
    for mutant in mutants:
        for layer in mutant.all_layers() if arguments.all else mutant.layers[:1]:
            asked[layer].append(mutant)
    tasks, lock = queue.Queue(), threading.Lock()
    for layer in sorted(asked, key=lambda layer: -len(asked[layer])):
        if asked[layer]:
            tasks.put(layer)
    found, unsound = {mutant.name: {} for mutant in mutants}, []

    def say(name, layer, outcome, seconds):
        with lock:
            print("%-28s %-7s %s (%d s)" % (name, layer, outcome, seconds), flush=True)

    def worker(lane):
        tree = Tree(source, os.path.join(work, str(lane)))
        while True:
            try:
                layer = tasks.get_nowait()
            except queue.Empty:
                return
            run_layer(tree, layer, asked[layer], found, unsound, say)

    threads = [threading.Thread(target=worker, args=(lane,)) for lane in range(max(1, arguments.jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = unsound + complaints(mutants, found, arguments.all)
    idle = [mutant.name for mutant in mutants if set(found[mutant.name].values()) == {"not run"}]
    if idle:
        print("not checked, as what it needs is not here: " + ", ".join(idle))
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as file:
            file.write(markdown(mutants, found))
    print("\n".join(lines) if lines else "all %d faults were caught" % (len(mutants) - len(idle)))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
