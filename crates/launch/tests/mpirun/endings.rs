//! Tests of the end of jobs: exit status, one message, and no process left, whichever process dies.

use crate::common::{Done, run, start};

/// Runs mpirun and checks its status and its messages: `parts` in one line, or no message at all.
fn check(arguments: &[&str], status: i32, parts: &[&str]) {
    let Done { status: got, out, err } = run(arguments);
    assert_eq!(got, status, "{arguments:?}: {out} {err}");
    let said: Vec<&str> = err.lines().filter(|line| line.starts_with("mpirun:")).collect();
    if parts.is_empty() {
        assert!(said.is_empty(), "{arguments:?}: {err}");
        return;
    }
    assert_eq!(said.len(), 1, "{arguments:?}: {err}");
    for part in parts {
        assert!(said[0].contains(part), "{arguments:?}: {err}");
    }
}

#[test]
fn the_status_is_that_of_the_ranks() {
    check(&["-n", "3", "{fake}", "init", "finalize"], 0, &[]);
    check(&["-n", "2", "true"], 0, &[]);
    check(&["-n", "1", "false"], 1, &["rank 0 (pid ", "false) exited with code 1"]);
    check(
        &["-n", "3", "{fake}", "init", "finalize", "on:1", "exit:5"],
        5,
        &["rank 1 (pid ", "exited with code 5"],
    );
    check(
        &["-n", "1", "true", ":", "-n", "1", "sh", "-c", "exit 3"],
        3,
        &["rank 1 (pid ", "sh) exited with code 3"],
    );
}

#[test]
fn a_rank_that_dies_ends_the_job_with_one_message() {
    let host = tutti_sys::process::host_name();
    check(
        &["-n", "4", "{fake}", "init", "on:2", "kill:9", "sleep:100000"],
        137,
        &["rank 2 (pid ", &host, "signal 9 SIGKILL", "fake_rank"],
    );
    check(
        &["-n", "4", "{fake}", "init", "on:0", "kill:11", "sleep:100000"],
        139,
        &["rank 0", "SIGSEGV (segmentation fault)"],
    );
    check(
        &["-n", "3", "{fake}", "init", "on:1", "exit:0", "sleep:100000"],
        1,
        &["rank 1", "exited with code 0 without calling MPI_Finalize"],
    );
    check(
        &["-n", "3", "{fake}", "init", "on:1", "exit:4", "sleep:100000"],
        4,
        &["code 4 without calling MPI_Finalize"],
    );
    check(
        &["-n", "3", "{fake}", "on:1", "exit:4", "sleep:100000"],
        4,
        &["rank 1", "exited with code 4; the other ranks were ended"],
    );
}

#[test]
fn abort_speaks_for_itself() {
    for (code, status) in [("7", 7), ("0", 0), ("256", 1), ("-1", 255)] {
        let Done { status: got, err, .. } =
            run(&["-n", "3", "{fake}", "init", "on:1", &format!("abort:{code}"), "sleep:100000"]);
        assert_eq!((got, &err[..]), (status, "rank 1 called MPI_Abort\n"));
    }
}

#[test]
fn ranks_behind_a_shell_end_too() {
    check(
        &["-n", "2", "sh", "-c", "{fake} init on:1 kill:9 sleep:100000; exit $?"],
        137,
        &["rank 1", "exited with code 137 (as a shell reports signal 9"],
    );
    check(
        &["-n", "2", "sh", "-c", "{fake} init on:1 kill:9 sleep:100000; true"],
        1,
        &["without calling MPI_Finalize"],
    );
    check(
        &["-n", "2", "timeout", "100", "{fake}", "init", "on:1", "kill:11", "sleep:100000"],
        139,
        &["rank 1"],
    );
}

#[test]
fn what_ranks_leave_running_is_ended() {
    check(&["-n", "2", "sh", "-c", "sleep 1000 & setsid sleep 1000 & exit 0"], 0, &[]);
    check(
        &["-n", "2", "sh", "-c", "setsid sleep 1000 & exec {fake} on:1 kill:6 sleep:100000"],
        134,
        &["SIGABRT"],
    );
}

#[test]
fn mpirun_itself_can_be_killed() {
    for command in [
        "exec {fake} init sleep:100000",
        "{fake} init sleep:100000; true",
        "setsid sleep 1000 & sleep 1000; true",
    ] {
        let run = start(&["-n", "2", "sh", "-c", command]);
        run.wait_for(if command.contains("fake") { "fake_rank init" } else { "sleep" }, 2);
        run.signal(libc::SIGKILL);
        assert_eq!(run.finish().status, 137);
    }
}

#[test]
fn the_launchers_other_process_can_be_killed() {
    let run = start(&["-n", "2", "sh", "-c", "setsid sleep 1000 & {fake} init sleep:100000; true"]);
    run.wait_for("fake_rank init", 2);
    let node = run.wait_for("mpirun", 2).into_iter().find(|&pid| pid != run.child.id() as i32).unwrap();
    assert!(tutti_sys::process::kill(node, libc::SIGKILL));
    let Done { status, err, .. } = run.finish();
    assert_eq!(status, 137);
    assert!(err.contains("the launcher's own process was killed by signal 9"), "{err}");
}

#[test]
fn signals_are_passed_on() {
    let run = start(&["-n", "2", "{fake}", "init", "say:ready", "sleep:100000"]);
    run.wait_for("fake_rank init", 2);
    run.signal(libc::SIGTERM);
    let Done { status, err, .. } = run.finish();
    assert_eq!((status, &err[..]), (143, ""));

    let run = start(&[
        "-n",
        "2",
        "sh",
        "-c",
        "trap 'echo caught; exit 9' USR2; while true; do sleep 0.0$((1+1)); done",
    ]);
    run.wait_for("sleep 0.02", 2);
    run.signal(libc::SIGUSR2);
    let Done { status, out, .. } = run.finish();
    assert_eq!(status, 9);
    assert!(out.contains("caught"), "{out}");

    let run = start(&["-n", "2", "sh", "-c", "trap '' INT; while true; do sleep 0.0$((1+1)); done"]);
    run.wait_for("sleep 0.02", 2);
    run.signal(libc::SIGINT);
    std::thread::sleep(std::time::Duration::from_millis(50));
    run.signal(libc::SIGINT);
    assert_eq!(run.finish().status, 130);
}

#[test]
fn a_time_limit_ends_the_job_and_shows_the_waits() {
    let Done { status, err, .. } = run(&[
        "-n",
        "2",
        "--timeout",
        "3",
        "{fake}",
        "init",
        "wait:MPI_Recv from rank 1, tag 7",
        "sleep:100000",
    ]);
    assert_eq!(status, 124);
    assert!(err.contains("the time limit (--timeout) is over"), "{err}");
    assert!(err.contains(" s in MPI_Recv from rank 1, tag 7\n"), "{err}");
}

#[test]
fn sigusr1_shows_where_ranks_wait() {
    let run =
        start(&["-n", "3", "{fake}", "init", "on:1", "wait:MPI_Barrier", "on:2", "finalize", "sleep:1000"]);
    run.wait_for("fake_rank init", 3);
    std::thread::sleep(std::time::Duration::from_millis(200));
    run.signal(libc::SIGUSR1);
    let Done { err, .. } = run.finish();
    for part in
        ["rank 0 (pid", "): running (not waiting in MPI)", " s in MPI_Barrier", "has called MPI_Finalize"]
    {
        assert!(err.contains(part), "{err}");
    }
}

#[test]
fn programs_that_cannot_run_are_named() {
    check(&["-n", "2", "no-such-program"], 127, &["program no-such-program is not in PATH"]);
    check(&["-n", "2", "/etc/passwd"], 126, &["cannot execute /etc/passwd: it is not executable"]);
    check(&["-n", "2", "sh", "-c", "exec /no/such/thing"], 127, &["exited with code 127", "not found"]);
    check(&["--bogus"], 2, &["unknown option --bogus"]);
    check(&["-genv", "TUTTI_EAGER_BYTES", "many", "true"], 2, &["TUTTI_EAGER_BYTES: \"many\" is not a size"]);
    check(
        &["--agent", "/no/such/agent", "-host", "elsewhere", "true"],
        1,
        &["host elsewhere cannot be reached: /no/such/agent cannot be started"],
    );
    check(&["-wdir", "/no/such/directory", "true"], 2, &["working directory /no/such/directory"]);
}
