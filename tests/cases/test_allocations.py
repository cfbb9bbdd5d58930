"""Hosts in variables: those of Kubernetes' MPI operator, of other launchers, and of resource managers.

The environment of an MPIJob is what kubeflow/mpi-operator makes in `newLauncherPodTemplate` and
`newConfigMap` (v0.8.2), for each of its three implementations; its workers run a real sshd. Stand-ins for
resource managers are their files and variables, and programs with the names of their agents, which run a
command on a host of the testbed.
"""

import re
import shutil
import subprocess

import pytest

from harness import ROOT, Job

# Variables of the launcher's pod, besides the host file and the number of slots.
IMPLEMENTATIONS = {
    "OpenMPI": {
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true", "OMPI_MCA_orte_default_hostfile": "FILE",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10", "OMPI_MCA_orte_set_default_slots": "2",
    },
    "Intel": {
        "I_MPI_HYDRA_HOST_FILE": "FILE", "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "-o ConnectionAttempts=10",
        "I_MPI_PERHOST": "2",
    },
    "MPICH": {"HYDRA_HOST_FILE": "FILE", "HYDRA_LAUNCH_EXTRA_ARGS": "-o ConnectionAttempts=10"},
}
LINES = {"OpenMPI": "{} slots=2\n", "Intel": "{}:2\n", "MPICH": "{}:2\n"}
PODS = ["pi-launcher", "pi-worker-0", "pi-worker-1"]
# Configurations of ssh and sshd in the operator's base image.
CLIENT = "Host *\n    StrictHostKeyChecking no\n    UserKnownHostsFile /dev/null\n    Port 2222\n    IdentityFile {folder}/id_rsa\n"
SERVER = "Port 2222\nHostKey {folder}/id_rsa\nStrictModes no\nAuthorizedKeysFile {folder}/id_rsa.pub\nPidFile none\nUsePAM no\n"


def whole(outcome, lines):
    """Checks that the job ended well, wrote these lines and nothing else, and left no process."""
    assert (outcome.status, sorted(outcome.out.split())) == (0, sorted(lines)), str(outcome)
    assert not outcome.timed_out and outcome.left == [], str(outcome)


def full_name(pod):
    return f"{pod}.pi.default.svc"


@pytest.fixture(scope="module")
def pods(hosts, tmp_path_factory):
    """Creates three hosts with the names and the files of the pods of an MPIJob. The workers run sshd."""
    if not shutil.which("sshd", path="/usr/sbin:/usr/bin"):
        pytest.skip("sshd is missing (scripts/need.sh hosts installs it)")
    testbed = hosts(3)
    folder = tmp_path_factory.mktemp("kubernetes")
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", folder / "id_rsa"], check=True, timeout=60)
    (folder / "ssh_config").write_text(CLIENT.format(folder=folder))
    (folder / "sshd_config").write_text(SERVER.format(folder=folder))
    for number, (host, pod) in enumerate(zip(testbed.hosts, PODS)):
        script = f"""
            hostname {pod}
            cat /etc/hosts > /tmp/hosts
            for pod in {' '.join(PODS)}; do
                echo "$(awk -v name=n$((i)) '$2 == name {{ print $1 }}' /etc/hosts) $pod.pi.default.svc $pod" >> /tmp/hosts
                i=$((i + 1))
            done
            mount --bind /tmp/hosts /etc/hosts
            mount --bind {folder}/ssh_config /etc/ssh/ssh_config
            [ {number} = 0 ] || {{ mkdir -p /run/sshd; /usr/sbin/sshd -f {folder}/sshd_config; }}
            """
        done = subprocess.run([str(word) for word in testbed.on(host, "sh", "-euc", f"i=0{script}")], capture_output=True, text=True,
                              timeout=60, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done
    return testbed


@pytest.fixture(params=IMPLEMENTATIONS)
def launcher(request, pods, tutti, tmp_path_factory):
    """Runs mpirun in the launcher's pod of an MPIJob, with these pods as workers."""

    def run(*words, workers=(1, 2), env=None):
        file = tmp_path_factory.mktemp("config") / "hostfile"
        file.write_text("".join(LINES[request.param].format(full_name(PODS[number])) for number in workers))
        made = {name: value.replace("FILE", str(file)) for name, value in IMPLEMENTATIONS[request.param].items()}
        job = {"K_MPI_JOB_ROLE": "launcher", **made, **(env or {})}
        return Job(pods.on("n0", tutti.mpirun, *words), {**tutti.env, **job}).wait(90)

    return run


def test_an_mpijob_runs_on_its_workers(launcher):
    """Ranks run on every slot of the workers, and none in the launcher's pod."""
    whole(launcher("hostname"), ["pi-worker-0"] * 2 + ["pi-worker-1"] * 2)


def test_ranks_of_an_mpijob_find_each_other(launcher, job):
    outcome = launcher("-n", 4, job, "hello")
    assert (outcome.status, sorted(outcome.out.splitlines())) == (0, [f"rank {rank} of 4" for rank in range(4)]), str(outcome)


def test_the_launcher_may_be_a_worker(launcher):
    whole(launcher("hostname", workers=(0, 1)), ["pi-launcher"] * 2 + ["pi-worker-0"] * 2)


def test_the_command_line_precedes_variables(launcher):
    whole(launcher("--host", "localhost:1", "hostname"), ["pi-launcher"])


def test_a_worker_that_is_not_there_is_named(launcher, pods):
    """The job does not run on the other hosts instead."""
    outcome = launcher("--host", "pi-worker-7.pi.default.svc", "hostname")
    assert outcome.status != 0 and "host pi-worker-7.pi.default.svc cannot be reached: ssh exited with code 255" in outcome.err, outcome
    assert outcome.out == "", str(outcome)


AGENT = "exec {agent} \"$@\"\n"
# Managers: variables, files with their texts, the agent and its script, the beginning of its command.
MANAGERS = {
    "PE_HOSTFILE (Grid Engine)": (
        {"PE_HOSTFILE": "FOLDER/pe"}, {"pe": "n0 2 all.q@n0 UNDEFINED\nn1 2 all.q@n1 UNDEFINED\n"},
        ("qrsh", '[ "$1 $2" = "-inherit -V" ] || exit 9\nshift 2\n' + AGENT), "qrsh -inherit -V"),
    "LSB_DJOB_HOSTFILE (LSF)": (
        {"LSB_DJOB_HOSTFILE": "FOLDER/lsf", "LSB_MCPU_HOSTS": "n0 2 n1 2"}, {"lsf": "n0\nn0\nn1\nn1\n"}, ("blaunch", AGENT), "blaunch"),
    "LSB_MCPU_HOSTS (LSF)": ({"LSB_MCPU_HOSTS": "n0 2 n1 2 "}, {}, ("blaunch", AGENT), "blaunch"),
    "FLUX_URI (Flux)": (
        {"FLUX_URI": "local:///run/flux/local"}, {},
        ("flux", 'case "$1 $2" in\n"getattr hostlist") echo "n[0-1]" ;;\n"resource info") echo "2 Nodes, 4 Cores, 0 GPUs" ;;\n'
                 '"overlay lookup") echo ${{3#n}} ;;\n"exec -r") host=n$3; shift 3; exec {agent} $host "$@" ;;\n*) exit 9 ;;\nesac\n'),
        "sh -c"),
    "PBS_NODEFILE (PBS or PALS)": ({"PBS_NODEFILE": "FOLDER/pbs"}, {"pbs": "n0\nn0\nn1\nn1\n"}, ("ssh", AGENT), "ssh -x"),
    "COBALT_NODEFILE (Cobalt)": ({"COBALT_NODEFILE": "FOLDER/c"}, {"c": "n0\nn0\nn1\nn1\n"}, ("ssh", AGENT), "ssh -x"),
    "OAR_NODEFILE (OAR)": ({"OAR_NODEFILE": "FOLDER/oar"}, {"oar": "n0\nn0\nn1\nn1\n"}, ("oarsh", AGENT), "oarsh"),
    "SLURM_JOB_NODELIST (Slurm)": (
        {"SLURM_JOB_NODELIST": "n[0-1]", "SLURM_TASKS_PER_NODE": "2(x2)"}, {},
        ("srun", 'for word; do case $word in --nodelist=*) host=${{word#*=}} ;; --*) ;; *) break ;; esac; shift; done\n'
                 'exec {agent} $host "$@"\n'), "srun --nodes=1"),
}


@pytest.fixture(params=MANAGERS)
def manager(request, hosts, tutti, tmp_path_factory):
    """Runs mpirun on the first of two hosts that a resource manager has given."""
    testbed = hosts(2)
    variables, files, (agent, script), shown = MANAGERS[request.param]
    folder = tmp_path_factory.mktemp("manager")
    for name, text in files.items():
        (folder / name).write_text(text)
    # ssh has options before the host.
    script = 'while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done\n' + script if agent == "ssh" else script
    (folder / agent).write_text("#!/bin/sh\n" + script.format(agent=testbed.agent))
    (folder / agent).chmod(0o755)
    values = {name: value.replace("FOLDER", str(folder)) for name, value in variables.items()}

    def run(*words, env=None):
        path = {"PATH": f"{folder}:{tutti.env.get('PATH', '/usr/bin:/bin')}"}
        return Job(testbed.on("n0", tutti.mpirun, *words), {**tutti.env, **values, **path, **(env or {})}).wait(90)

    run.source, run.agent = request.param, shown
    return run


def test_jobs_run_on_what_a_manager_has_given(manager):
    whole(manager("hostname"), ["n0", "n0", "n1", "n1"])


def test_what_a_manager_has_given_is_shown(manager):
    outcome = manager("-n", 3, "--display", "allocation", "--do-not-launch", "hostname")
    first, *lines = outcome.out.splitlines()
    assert first.startswith(f"mpirun: hosts are named by {manager.source}, reached by {manager.agent}"), str(outcome)
    assert lines == ["mpirun: host n0: 2 slots, 2 ranks", "mpirun: host n1: 2 slots, 1 ranks"], str(outcome)


def test_hosts_that_are_not_used_are_reported(tutti, tmp_path):
    """A stale host file in a user's profile must not shrink a job unnoticed."""
    (tmp_path / "hosts").write_text("localhost:2\n")
    env = {"HYDRA_HOST_FILE": str(tmp_path / "hosts"), "LSB_MCPU_HOSTS": "x1 4 x2 4"}
    outcome = tutti.run_words(["true"], env=env)
    line = ("mpirun: hosts are those of HYDRA_HOST_FILE (MPICH); LSB_MCPU_HOSTS (LSF) names others, which are not used: "
            "x1, x2")
    assert (outcome.status, outcome.err.splitlines()) == (0, [line]), outcome
    assert tutti.run_words(["--quiet", "true"], env=env).err == ""
    assert tutti.run_words(["--host", "localhost:2", "true"], env=env).err == ""


def test_the_guide_has_the_table_of_precedence():
    """The page names the variables of `SOURCES`, in the same order."""
    source = (ROOT / "crates" / "launch" / "src" / "allocation" / "mod.rs").read_text()
    table = source[source.index("pub const SOURCES"):source.index("];", source.index("pub const SOURCES"))]
    rows = re.findall(r"(?:launcher|manager)\(\s*\"(\w+)\",\s*\"([^\"]+)\"", table)
    page = (ROOT / "docs" / "guide" / "src" / "clusters.md").read_text()
    lines = [line.split("|") for line in page.splitlines() if re.match(r"\| \d+ \|", line)]
    listed = [(name, cells[3].strip()) for cells in lines for name in re.findall(r"`([A-Z]\w+_\w+)`", cells[2])]
    assert listed == rows


def test_the_example_of_kubernetes_is_whole(tutti):
    """The manifest is for this operator, and the image contains the programs that the pods run."""
    folder = ROOT / "examples" / "kubernetes"
    manifest, recipe = ((folder / name).read_text() for name in ("mpijob.yaml", "Containerfile"))
    assert "\nkind: MPIJob\n" in manifest and "\napiVersion: kubeflow.org/v2beta1\n" in manifest
    assert re.search(r"mpiImplementation: (\w+)", manifest)[1] in IMPLEMENTATIONS
    assert "openssh-server" in recipe and "command: [/usr/sbin/sshd, -De, -f, /home/mpiuser/.sshd_config]" in manifest
    port = re.search(r"port: (\d+)", manifest)[1]
    assert f"    Port {port}\\n" in recipe and f"'Port {port}'" in recipe
    words = re.search(r"command: \[(mpirun.*)\]", manifest)[1].split(", ")
    assert words == ["mpirun", "--display", "allocation", "python", "-c"]
    shown = tutti.run_words([*words[1:3], "-n", "2", "hostname"])
    assert (shown.status, "2 ranks" in shown.out) == (0, True), shown


def copies_of_input(testbed, tutti, folder, *words, size=300_000):
    """Runs a job in which every rank counts its input, with this many bytes on the job's standard input."""
    file = folder / "input"
    file.write_bytes(b"0123456789abcde\n" * (size // 16))
    with file.open("rb") as given:
        command = testbed.on("n0", tutti.mpirun, "--agent", testbed.agent, "--stdin", "all", *words)
        return Job(command, tutti.env, stdin=given).wait(60), file.stat().st_size


@pytest.mark.parametrize("places", ["n0:3", "n1:2", "n0:2,n1:2"])
def test_every_rank_may_read_the_standard_input(hosts, tutti, tmp_path, places):
    ranks = sum(int(place.split(":")[1]) for place in places.split(","))
    outcome, size = copies_of_input(hosts(2), tutti, tmp_path, "--host", places, "sh", "-c", "cksum | cut -d' ' -f2")
    assert (outcome.status, outcome.out.split(), outcome.left) == (0, [str(size)] * ranks, []), str(outcome)


def test_ranks_that_do_not_read_hold_nobody_up(hosts, tutti, tmp_path):
    """A rank ends at once, another closes its input; the others get all."""
    script = "case $TUTTI_JOB_RANK in 0) exit 0 ;; 3) exec < /dev/null ;; esac; wc -c"
    outcome, size = copies_of_input(hosts(2), tutti, tmp_path, "--host", "n0:2,n1:2", "sh", "-c", script)
    assert (outcome.status, sorted(outcome.out.split())) == (0, sorted(["0", str(size), str(size)])), str(outcome)
