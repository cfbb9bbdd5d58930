"""Every function of the C interface with one wrong argument after the other, generated from the ABI's table
of functions.

Each call is made by a process of its own: it has to give an error, not to crash, and not to hang. Which wrong
arguments are allowed after all, and why, is in `wrong_arguments.tsv`.
"""

import fnmatch
import re

from harness import ROOT

# Handles: a right one, and the null handle.
HANDLES = {
    "MPI_Comm": ("comm", "MPI_COMM_NULL"), "MPI_Datatype": ("MPI_INT", "MPI_DATATYPE_NULL"), "MPI_Op": ("MPI_SUM", "MPI_OP_NULL"),
    "MPI_Group": ("group", "MPI_GROUP_NULL"), "MPI_Info": ("info", "MPI_INFO_NULL"), "MPI_Win": ("win", "MPI_WIN_NULL"),
    "MPI_Errhandler": ("MPI_ERRORS_RETURN", "MPI_ERRHANDLER_NULL"), "MPI_File": ("file", "MPI_FILE_NULL"),
    "MPI_Session": ("session", "MPI_SESSION_NULL"), "MPI_Message": ("MPI_MESSAGE_NULL", None), "MPI_Request": ("MPI_REQUEST_NULL", None)}
# Functions that end or change the process, wait for another process, or start something.
LEFT_OUT = re.compile(r"MPI_(Init.*|Finalize|Abort|Session_finalize|Pcontrol|T_finalize|Recv|Recv_c|Probe|Mprobe|"
                      r"Comm_(accept|connect|join|spawn.*)|File_close)")
ZEROS = ("root dest source rank tag sendtag recvtag target_rank local_leader remote_leader assert errorcode target_disp direction").split()
INTEGERS = ("int", "MPI_Count", "MPI_Aint", "MPI_Offset")

HEAD = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static char buffers[16][65536], strings[16][8192], handles[16][65536], memory[4096];
static MPI_Comm comm;
static MPI_Group group;
static MPI_Info info;
static MPI_Win win;
static MPI_Session session;
static MPI_File file;
static int nothing(void) { return 0; }
"""

MAIN = """
int main(void)
{
    int provided, status;
    struct rlimit none = {0, 0};
    MPI_Init(0, 0);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Comm_group(comm, &group);
    MPI_Info_create(&info);
    MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, comm, &win);
    MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
    MPI_Win_lock_all(0, win);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_File_open(comm, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    setrlimit(RLIMIT_CORE, &none);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        memset(buffers, 0, sizeof buffers);
        for (int k = 0; k < 16; k++)
            strcpy(strings[k], "x");
        fflush(0);
        int child = fork();
        if (!child) {
            alarm(10);
            _exit(cases[i].call() != MPI_SUCCESS);
        }
        waitpid(child, &status, 0);
        if (WIFSIGNALED(status))
            printf("signal %d: %s\\n", WTERMSIG(status), cases[i].name);
        else if (WEXITSTATUS(status) != 1)
            printf("status %d: %s\\n", WEXITSTATUS(status), cases[i].name);
    }
    puts("all called");
    fflush(0);
    _exit(0);
}
"""


class Parameter:
    """One parameter of a function, from its C text."""

    def __init__(self, text, place):
        kind, name = re.match(r"(.*?)([*]*\w+(?:\[[^\]]*\])*)$", text.strip()).groups()
        self.is_pointer = "*" in text or "[" in text
        self.is_text = kind.endswith("char") and text.count("*") + text.count("[") == 1
        self.base = kind.replace("const ", "").replace("*", "").strip()
        self.name = re.sub(r"\[.*|\*", "", name)
        self.place = place

    def right(self):
        """Returns a valid value for an argument that most functions take."""
        if self.base.endswith(("_function", "_fn")):
            return "(void *)nothing"
        if self.is_pointer:
            pool = "handles" if self.base in HANDLES else "strings" if self.is_text else "buffers"
            return f"(void *){pool}[{self.place}]"
        if self.base in HANDLES:
            return HANDLES[self.base][0]
        if self.base in INTEGERS:
            return "MPI_ORDER_C" if self.name == "order" else "MPI_LOCK_SHARED" if self.name == "lock_type" else str(int(self.name not in ZEROS))
        return f"({self.base})0"

    def wrong(self):
        """Returns invalid values for an argument of most functions, by name."""
        if self.is_pointer:
            return {"null": "NULL"}
        if self.base in HANDLES:
            found = {"garbage": f"({self.base})0x7fff0000", "foreign": f"({self.base}){'MPI_SUM' if self.base == 'MPI_Datatype' else 'MPI_INT'}"}
            null = HANDLES[self.base][1]
            return {**found, "null": null} if null else found
        return {"negative": "-7777"} if self.base in INTEGERS else {}


def cases():
    """Returns the cases: name, C statements that prepare, and the call."""
    for line in (ROOT / "spec" / "functions.tsv").read_text(encoding="ascii").splitlines():
        words = line.split("\t")
        name, returns, text = words[0], words[1], words[2]
        if not name.startswith("MPI_") or LEFT_OUT.fullmatch(name) or text.strip() in ("void", ""):
            continue
        parameters = [Parameter(part, place) for place, part in enumerate(text.split(","))]
        ready = "".join(f"for (int i = 0; i < 64; i++) (({p.base} *)handles[{p.place}])[i] = {HANDLES[p.base][0]};"
                        for p in parameters if p.is_pointer and p.base in HANDLES)
        for one in parameters:
            for what, value in one.wrong().items():
                arguments = ", ".join(value if p is one else p.right() for p in parameters)
                call = f"return {name}({arguments});" if returns == "int" else f"(void){name}({arguments}); return 0;"
                yield f"{name} {one.name} {what}", ready, call


def source():
    """Returns the text of the program."""
    all_cases = list(cases())
    functions = "".join(f"static int call_{i}(void) {{ {ready} {call} }}\n" for i, (_, ready, call) in enumerate(all_cases))
    rows = "".join(f'    {{"{name}", call_{i}}},\n' for i, (name, _, _) in enumerate(all_cases))
    return f"{HEAD}{functions}static const struct {{ const char *name; int (*call)(void); }} cases[] = {{\n{rows}}};\n{MAIN}"


def allowed():
    """Returns patterns of calls that are no mistake."""
    lines = (ROOT / "tests" / "support" / "wrong_arguments.tsv").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines if line and not line.startswith("#")]


def complaints(output):
    """Returns the lines that the program has printed, except the allowed ones."""
    good = ["status 0: " + pattern for pattern in allowed()]
    found = [line for line in output.splitlines() if line.startswith(("signal", "status"))]
    return [line for line in found if not any(fnmatch.fnmatchcase(line, pattern) for pattern in good)]
