//! Writes `hip` and `hip_value` steps as YAML.

use plan::{Arg, Choice, HipArg, HipRead, HipReadType, Name};

use super::{
    argument::argument,
    scalar::{flow_list, flow_map, plain},
};

pub(super) fn look(
    of: &Name,
    read: &HipRead,
    against: Option<&Name>,
) -> Vec<(&'static str, String)> {
    let mut fields = vec![("of", plain(of))];
    if read.at != 0 {
        fields.push(("at", read.at.to_string()));
    }
    let sort = match read.sort {
        HipReadType::Number(ty) => ty.word(),
        HipReadType::Text => "text",
        HipReadType::TextAt => "text_at",
        HipReadType::Pointer => "pointer",
    };
    fields.push(("type", sort.to_owned()));
    fields.extend(against.map(|name| ("against", plain(name))));
    fields
}

pub(super) fn given(arg: &HipArg) -> String {
    match arg {
        HipArg::Null => "null".to_owned(),
        HipArg::Number(number) => plain(&number.to_string()),
        HipArg::Text(name)
        | HipArg::Value(name)
        | HipArg::Stream(name)
        | HipArg::Event(name)
        | HipArg::Graph(name)
        | HipArg::Kernel(name)
        | HipArg::Out { name, before: 0 } => plain(name),
        HipArg::Out { name, before } => {
            flow_map(vec![("out", plain(name)), ("before", before.to_string())])
        }
        HipArg::Place(place) => argument(&Arg::Address(place.clone())),
        HipArg::Struct(members) => flow_list(members.iter().map(member)),
        HipArg::Bytes(_) => member(arg),
    }
}

fn member(arg: &HipArg) -> String {
    match arg {
        HipArg::Number(number) => argument(&Arg::Number(*number)),
        HipArg::Bytes(bytes) => argument(&Arg::Bytes(bytes.clone())),
        HipArg::Kernel(name) => flow_map(vec![("kernel", plain(name))]),
        HipArg::Struct(members) => {
            flow_map(vec![("struct", flow_list(members.iter().map(member)))])
        }
        HipArg::Null
        | HipArg::Text(_)
        | HipArg::Value(_)
        | HipArg::Out { .. }
        | HipArg::Stream(_)
        | HipArg::Event(_)
        | HipArg::Graph(_)
        | HipArg::Place(_) => given(arg),
    }
}
