//! Runs the command with misbehaving libraries, launchers, limits, disks, signals, cases and archives. The table is in
//! `harness/chaos`; `cargo run -p ci -- chaos` runs the long form.

fn main() -> std::process::ExitCode {
    chaos::main(env!("CARGO_BIN_EXE_rocrepro").into())
}
