use std::process::ExitCode;

use crate::{args::Schema, outputs};
use engine::Stop;

const CASE_SCHEMA: &str = include_str!("../../../../cases/schema.json");

pub(crate) fn schema(args: &Schema) -> Result<ExitCode, Stop> {
    if args.record {
        outputs::print_data(&format!("{:#}\n", report::schema()))?;
    } else {
        outputs::print_data(CASE_SCHEMA)?;
    }
    Ok(ExitCode::SUCCESS)
}
