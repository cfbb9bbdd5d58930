//! The command `mpirun`, also installed as `mpiexec`.

fn main() -> std::process::ExitCode {
    tutti_launch::main().into()
}
