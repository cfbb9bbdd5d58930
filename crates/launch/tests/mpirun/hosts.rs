//! Tests of jobs on several hosts, which are all this machine. An agent in place of ssh gives each a clean
//! environment.

use crate::common::{Done, MPIRUN, by_age, run, start};

/// Options for three hosts on this machine, of which the first needs no agent.
const HERE: [&str; 4] = ["--agent", "{agent}", "--host", "localhost:2,h1:2,h2:2"];
/// Options for two hosts other than that of mpirun.
const AWAY: [&str; 4] = ["--agent", "{agent}", "--host", "h1:2,h2:1"];

fn on(hosts: [&'static str; 4], arguments: &[&'static str]) -> Vec<&'static str> {
    [&hosts[..], arguments].concat()
}

fn check(arguments: &[&str], lines: &[&str]) {
    let Done { status, out, err } = run(arguments);
    assert_eq!((status, &err[..]), (0, ""), "{arguments:?}: {out}");
    let mut got: Vec<&str> = out.lines().collect();
    got.sort_unstable();
    assert_eq!(got, lines, "{arguments:?}");
}

/// Checks the status, and the parts of one line of the messages.
fn check_end(arguments: &[&str], status: i32, parts: &[&str]) {
    let Done { status: got, out, err } = run(arguments);
    assert_eq!(got, status, "{arguments:?}: {out} {err}");
    let said: Vec<&str> = err.lines().filter(|line| line.starts_with("mpirun:")).collect();
    assert_eq!(said.len(), parts.len().min(1), "{arguments:?}: {err}");
    for part in parts {
        assert!(said[0].contains(part), "{arguments:?}: {err}");
    }
}

#[test]
fn ranks_run_where_they_are_placed() {
    let lines = ["0 of 4 on host 0 of 2 app 0", "1 of 4 on host 0 of 2 app 0", "2 of 4 on host 1 of 2 app 0"];
    let last = "3 of 4 on host 1 of 2 app 1";
    let programs = ["-n", "3", "{fake}", "header", ":", "-n", "1", "{fake}", "header"];
    check(&on(HERE, &programs), &[&lines[..], &[last]].concat());
    let dealt = ["--map-by", "node", "-n", "3", "{fake}", "header"];
    check(
        &on(AWAY, &dealt),
        &["0 of 3 on host 0 of 2 app 0", "1 of 3 on host 1 of 2 app 0", "2 of 3 on host 0 of 2 app 0"],
    );
    for radix in ["0", "1", "2"] {
        let more =
            ["--radix", radix, "-ppn", "1", "-l", "sh", "-c", "echo $MPI_LOCALRANKID $MPI_LOCALNRANKS"];
        check(&on(HERE, &more), &["[0] 0 1", "[1] 0 1", "[2] 0 1"]);
    }
}

#[test]
fn ranks_elsewhere_have_the_environment_and_directory_of_mpirun() {
    let path = format!("{}", std::env::current_dir().unwrap().display());
    check(
        &on(AWAY, &["-x", "A=x y", "-n", "3", "sh", "-c", "echo $A $PWD $CARGO_PKG_NAME"]),
        &[&format!("x y {path} tutti-launch")[..]; 3],
    );
    check(&on(AWAY, &["-wdir", "/", "sh", "-c", "echo $PWD"]), &["/"; 3]);
}

#[test]
fn the_first_failure_ends_the_job_everywhere() {
    check_end(
        &on(HERE, &["{fake}", "init", "on:5", "kill:11", "sleep:100000"]),
        139,
        &["rank 5 (pid ", "host h2", "SIGSEGV", "the other ranks were ended"],
    );
    check_end(
        &on(AWAY, &["{fake}", "init", "on:2", "exit:3", "sleep:100000"]),
        3,
        &["rank 2", "host h2", "code 3"],
    );
    check_end(&on(AWAY, &["{fake}", "init", "on:1", "abort:7", "sleep:100000"]), 7, &[]);
    check_end(
        &on(HERE, &["{fake}", "init", "finalize", "on:3", "exit:5"]),
        5,
        &["rank 3 (pid ", "host h", "exited with code 5"],
    );
}

#[test]
fn what_cannot_start_is_told_with_its_host() {
    check_end(&on(AWAY, &["no-such-program"]), 127, &["host h", "program no-such-program is not in PATH"]);
    check_end(
        &["--agent", "false", "--host", "h1", "true"],
        1,
        &["host h1 cannot be reached: false exited with code 1"],
    );
    check_end(
        &["--agent", "true", "--host", "localhost,h1", "sleep", "1000"],
        1,
        &["host h1 cannot be reached"],
    );
    let Done { status, err, .. } =
        run(&["--agent", "sh -c {agent}", "--host", "h1", "--prefix", "/nowhere", "true"]);
    assert_eq!(status, 1, "{err}");
}

#[test]
fn output_of_all_hosts_stays_in_lines() {
    let Done { status, out, .. } = run(&on(HERE, &["{fake}", "flood:2"]));
    assert_eq!(status, 0);
    assert_eq!(out.lines().count(), 6 * 2 * 10_486);
    assert!(out.lines().all(|line| line.len() == 99));
}

#[test]
fn any_process_of_the_launcher_can_be_killed() {
    for kills_root in [false, true] {
        let run = start(&on(HERE, &["sh", "-c", "setsid sleep 1000 & {fake} init sleep:100000; true"]));
        // Each rank is a shell and the program.
        run.wait_for("fake_rank init", 12);
        let daemons = run.wait_for("--daemon 2", 2);
        if kills_root {
            run.signal(libc::SIGKILL);
        } else {
            // The second oldest process is the node; the oldest is its supervisor. A child of the node may
            // not have executed its program yet.
            assert!(tutti_sys::process::kill(by_age(daemons)[1], libc::SIGKILL));
        }
        let Done { status, err, .. } = run.finish();
        let said = if kills_root {
            ""
        } else {
            "mpirun: host h2 is lost: the launcher's daemon on it has ended; the job was ended\n"
        };
        assert_eq!((status, &err[..]), (if kills_root { 137 } else { 1 }, said));
    }
}

#[test]
fn signals_reach_every_host() {
    let run = start(&on(HERE, &["{fake}", "init", "wait:MPI_Barrier", "sleep:100000"]));
    run.wait_for("fake_rank init", 6);
    std::thread::sleep(std::time::Duration::from_millis(100));
    run.signal(libc::SIGUSR1);
    std::thread::sleep(std::time::Duration::from_millis(100));
    run.signal(libc::SIGTERM);
    let Done { status, err, .. } = run.finish();
    assert_eq!(status, 143, "{err}");
    // Equal reports of several ranks are shown once.
    let is_of_all =
        |line: &str| line.starts_with("mpirun: ranks 0-5: waiting ") && line.ends_with(" s in MPI_Barrier");
    assert_eq!(err.lines().filter(|line| is_of_all(line)).count(), 1, "{err}");
}

#[test]
fn a_reader_that_leaves_ends_the_job_everywhere() {
    use std::io::Read;
    let mut run = start(&on(AWAY, &["sh", "-c", "yes"]));
    let mut first = [0; 10];
    run.child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let Done { status, err, .. } = run.finish();
    assert_eq!((status, &err[..]), (141, ""));
}

#[test]
fn output_that_cannot_be_written_is_told_once() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(MPIRUN);
    let agent = crate::common::agent();
    let done =
        command.args(["--agent", &agent, "--host", "h1,h2", "echo", "hi"]).stdout(full).output().unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("mpirun: output cannot be written: No space left"), "{err}");
}

#[test]
fn input_goes_to_rank_0_wherever_it_runs() {
    use std::io::Write;
    let text = "x".repeat(99) + "\n";
    for command in ["cat; echo end", "head -n 2; echo end"] {
        let mut run = start(&on(AWAY, &["-n", "3", "-l", "sh", "-c", command]));
        let mut input = run.child.stdin.take().unwrap();
        let lines = 3000;
        let writer = std::thread::spawn({
            let text = text.repeat(lines);
            move || drop(input.write_all(text.as_bytes()))
        });
        let Done { status, out, err } = run.finish();
        writer.join().unwrap();
        assert_eq!((status, &err[..]), (0, ""));
        let wanted = if command.starts_with("cat") { lines } else { 2 };
        assert_eq!(out.lines().filter(|line| line.ends_with("xx")).count(), wanted);
        let ends: Vec<&str> = out.lines().filter(|line| line.ends_with("end")).collect();
        assert_eq!(ends.len(), 3, "{ends:?}");
    }
}

#[test]
fn ranks_learn_where_others_are() {
    let words = ["{fake}", "on:0", "sleep:100", "publish:there", "ask:0", "ask:4", "ask:77"];
    let Done { status, out, err } = run(&on(HERE, &words));
    assert_eq!((status, &err[..]), (0, ""));
    for rank in 0..6 {
        for (other, address) in [(0, "there0"), (4, "there4"), (77, "")] {
            let line = format!("{rank}: {other} is at {address:?}");
            assert!(out.lines().any(|known| known == line), "{line}: {out}");
        }
    }
    let Done { out, .. } = run(&on(HERE, &["{fake}", "on:5", "exit:0", "publish:there", "ask:5"]));
    assert_eq!(out.lines().filter(|line| line.ends_with("5 is at \"\"")).count(), 5, "{out}");
}

#[test]
fn ranks_call_each_other() {
    let words = [
        "{fake}",
        "publish:there",
        "ask:5",
        "ask:2",
        "on:0",
        "call:5",
        "on:5",
        "call:2",
        "on:2",
        "called:",
        "on:5",
        "called:",
    ];
    let Done { status, out, err } = run(&on(HERE, &words));
    assert_eq!((status, &err[..]), (0, ""));
    let mut lines: Vec<&str> = out.lines().filter(|line| line.ends_with("calls")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["2: 5 calls", "5: 0 calls"]);
}

#[test]
fn a_host_that_falls_silent_is_named() {
    let mut arguments = on(HERE, &["{fake}", "init", "sleep:100000"]);
    arguments.splice(0..0, ["-genv", "TUTTI_SILENCE_MS", "2000", "-genv", "TUTTI_DEBUG", "heartbeat_ms=100"]);
    for stops_for_good in [false, true] {
        let run = start(&arguments);
        run.wait_for("fake_rank init", 6);
        std::thread::sleep(std::time::Duration::from_millis(300));
        let daemon = by_age(run.wait_for("--daemon 2", 2))[1];
        assert!(tutti_sys::process::kill(daemon, libc::SIGSTOP));
        if stops_for_good {
            // The pause is longer than the limit, and shorter than the test waits for remaining processes.
            std::thread::sleep(std::time::Duration::from_millis(3500));
        } else {
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        // On this machine the daemon is a descendant of mpirun, which may have ended it.
        assert!(tutti_sys::process::kill(daemon, libc::SIGCONT) || stops_for_good);
        if !stops_for_good {
            std::thread::sleep(std::time::Duration::from_millis(700));
            run.signal(libc::SIGTERM);
        }
        let Done { status, err, .. } = run.finish();
        if stops_for_good {
            assert_eq!(
                (status, &err[..]),
                (
                    1,
                    "mpirun: host h2 is lost: nothing was heard of it for 2 s (TUTTI_SILENCE_MS); the job was ended\n"
                )
            );
        } else {
            assert_eq!((status, &err[..]), (143, ""));
        }
    }
}

#[test]
fn a_daemon_with_a_wrong_secret_is_not_let_in() {
    let script = std::env::temp_dir().join(format!("tutti-wrong-{}.sh", std::process::id()));
    let body = format!("#!/bin/sh\nprintf 'tutti-s1%032d' 7 | {} \"$@\"\n", crate::common::agent());
    std::fs::write(&script, body).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let Done { status, err, .. } = run(&["--agent", script.to_str().unwrap(), "--host", "h1", "true"]);
    std::fs::remove_file(&script).unwrap();
    assert_eq!(status, 1);
    // The output of the agent is shown, as the daemon could not report the reason itself.
    let parts = [
        "h1: mpirun: this daemon cannot join",
        "does not know the secret",
        "mpirun: host h1 cannot be reached",
    ];
    assert!(parts.iter().all(|part| err.contains(part)), "{err}");
}

#[test]
fn strangers_are_shown_the_door() {
    use std::io::{Read, Write};
    // The agent reports the address of the parent. It starts the daemon after the strangers have connected.
    let told = std::env::temp_dir().join(format!("tutti-strangers-{}", std::process::id()));
    let script = format!("{}.sh", told.display());
    let body = format!(
        "#!/bin/sh\necho $6 > {0}.new; mv {0}.new {0}; while [ ! -e {0}.go ]; do sleep 0.02; done\nexec {1} \"$@\"\n",
        told.display(),
        crate::common::agent()
    );
    std::fs::write(&script, body).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run =
        start(&["--agent", &script, "--timings", "--interface", "127.0.0.1", "--host", "h1", "echo", "hi"]);
    let address = loop {
        match std::fs::read_to_string(&told) {
            Ok(text) => break text.trim().to_string(),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    let mut strangers: Vec<_> = (0..300).map(|_| std::net::TcpStream::connect(&address).unwrap()).collect();
    for (number, stranger) in strangers.iter_mut().enumerate() {
        // Some send nothing, some send noise, and some a hello without a valid proof.
        let hello = [&b"tutti-d1"[..], &1u32.to_le_bytes(), &[7; 32], &[9; 32]].concat();
        let words = [&b""[..], &[0xff; 100], &hello][number % 3];
        let _ = stranger.write_all(words);
    }
    let go = format!("{}.go", told.display());
    std::fs::write(&go, "").unwrap();
    let Done { status, out, err } = run.finish();
    std::fs::remove_file(&go).unwrap();
    assert_eq!((status, &out[..]), (0, "hi\n"), "{err}");
    assert!(err.contains(" foreign connections"), "{err}");
    let count = err.split(", ").last().and_then(|text| text.split(' ').next()?.parse::<u32>().ok());
    assert!(count.is_some_and(|count| count >= 172), "{err}");
    for stranger in &mut strangers {
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    std::fs::remove_file(&told).unwrap();
    std::fs::remove_file(&script).unwrap();
}

#[test]
fn a_daemon_trusts_only_who_knows_the_secret() {
    let done = std::process::Command::new(MPIRUN)
        .args(["--daemon", "1", "--parent", "127.0.0.1:9"])
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("the secret of the job"));
}
