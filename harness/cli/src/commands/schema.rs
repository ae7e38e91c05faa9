use std::process::ExitCode;

use crate::{Stop, args::Schema};

/// The schema that editors use for case files.
const CASE_SCHEMA: &str = include_str!("../../../../cases/schema.json");

pub(crate) fn schema(args: &Schema) -> Result<ExitCode, Stop> {
    if args.record {
        anstream::println!("{:#}", report::schema());
    } else {
        anstream::print!("{CASE_SCHEMA}");
    }
    Ok(ExitCode::SUCCESS)
}
