//! Decides on which GPUs trials run. Each GPU runs one trial at a time.

use thiserror::Error;

use crate::{FailedOperation, FailureClass, Stop, card::Card};

/// A choice of GPUs that is not possible.
#[derive(Debug, Error)]
enum SlotError {
    /// An environment variable of the trials hides one of several GPUs.
    #[error("`--env {0}=...` hides GPUs, so the GPU of a trial would be unknown")]
    Hidden(String),
    /// The variable (first text) and the option (second text) both choose GPUs.
    #[error("`--env {0}=...` and `{1}` both choose the visible GPUs")]
    Contradiction(String, String),
    #[error("`{0}`: the driver lists no GPU in /sys/class/kfd")]
    NoGpu(String),
    /// The option (first text) contains a name (second text) that no GPU has. The third text lists all GPUs.
    #[error("`{0}`: unknown GPU `{1}`; available are {2}")]
    Unknown(String, String, String),
    #[error("`{0}` names {1} twice")]
    Twice(String, String),
}

impl FailedOperation for SlotError {
    fn class(&self) -> FailureClass {
        FailureClass::Usage
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Hidden(_) => Some("choose with `--cards`".to_owned()),
            Self::NoGpu(_) => Some("run `rocrepro doctor` to find the cause".to_owned()),
            _ => None,
        }
    }
}

/// Environment variable that restricts the GPUs of a process. Before ROCm 6, HIP_VISIBLE_DEVICES does not accept UUIDs.
/// <https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html>
pub(crate) const VISIBLE: &str = "ROCR_VISIBLE_DEVICES";

/// Other environment variables that restrict the GPUs of a process.
const OTHER_VARIABLES: [&str; 3] =
    ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"];

const UNLISTED: &str = "turn-on-the-gpu";

/// A unit on which one trial runs at a time: one GPU, or all GPUs together.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The only GPU that trials see; `None` if they see all GPUs and use the first.
    pub(crate) card: Option<NamedGpu>,
    /// Names of the locks that a trial takes. Their order is the same in all slots.
    pub(crate) locks: Vec<String>,
}

impl Slot {
    /// Returns the name of the lock under which the GPU's state is stored.
    pub(crate) fn first_lock(&self) -> &str {
        self.locks.first().map_or("", String::as_str)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedGpu {
    /// PCI address, followed by a slash and the number of a partition if the GPU has partitions.
    pub(crate) name: String,
    /// PCI address as the HIP runtime reports it.
    pub(crate) bdf: String,
    /// Value for the environment variable [`VISIBLE`]: the UUID, because the number of a GPU may change with a reset.
    /// Without a UUID, the number.
    pub(crate) visible: String,
}

/// Returns the only slot of a run without a choice of GPUs. Its trials may use all GPUs, so they take the locks of all.
///
/// # Errors
/// Returns an error if environment variables hide GPUs, because the GPU of a trial would be unknown.
pub(crate) fn without_choice<'a>(
    cards: &[Card],
    variables: impl Iterator<Item = &'a String>,
) -> Result<Vec<Slot>, Stop> {
    let hiding = variables.filter(|name| cards.len() > 1 && hides(name));
    Stop::unless_empty(hiding.map(|name| SlotError::Hidden(name.clone())))?;
    let locks: Vec<_> = named_gpus(cards).iter().map(lock).collect();
    let locks = if locks.is_empty() { vec![UNLISTED.to_owned()] } else { locks };
    Ok(vec![Slot { card: None, locks }])
}

/// Returns the slots for the GPUs that the user chose. `words` are `all`, or numbers, PCI addresses and UUIDs. Messages
/// name the choice by `said`: the option `--cards` or an environment variable.
pub(crate) fn chosen_slots<'a>(
    words: &[String],
    said: &str,
    cards: &[Card],
    variables: impl Iterator<Item = &'a String>,
) -> Result<Vec<Slot>, Stop> {
    let named = named_gpus(cards);
    let said = || said.to_owned();
    let mut problems: Vec<_> = variables
        .filter(|name| hides(name))
        .map(|name| SlotError::Contradiction(name.clone(), said()))
        .collect();
    if named.is_empty() {
        problems.push(SlotError::NoGpu(said()));
    }
    let mut slots: Vec<Slot> = Vec::new();
    for word in words {
        let found: Vec<&NamedGpu> = match word.as_str() {
            "all" => named.iter().collect(),
            word => named
                .iter()
                .enumerate()
                .filter(|one| is_called(one, word))
                .map(|(_, card)| card)
                .collect(),
        };
        if found.is_empty() && !named.is_empty() {
            let known = named.iter().enumerate().map(|(n, card)| format!("{n} ({})", card.name));
            let known = known.collect::<Vec<_>>().join(", ");
            problems.push(SlotError::Unknown(said(), word.clone(), known));
        }
        for card in found {
            let slot = Slot { card: Some(card.clone()), locks: vec![lock(card)] };
            match slots.contains(&slot) {
                true => problems.push(SlotError::Twice(said(), card.name.clone())),
                false => slots.push(slot),
            }
        }
    }
    Stop::unless_empty(problems).map(|()| slots)
}

/// Returns the slot of the GPU that a trial used, which has the PCI address `bdf` and need not be the first one of
/// `slot`. Returns `slot` itself if it has only one GPU, or if the address is unknown.
pub(crate) fn slot_of_card(slot: &Slot, cards: &[Card], bdf: &str) -> Slot {
    let named = named_gpus(cards);
    let card = named.into_iter().find(|card| card.bdf.eq_ignore_ascii_case(bdf));
    match card.filter(|_| slot.card.is_none() && !bdf.is_empty()) {
        Some(card) if slot.first_lock() != lock(&card) => {
            Slot { locks: vec![lock(&card)], card: Some(card) }
        }
        _ => slot.clone(),
    }
}

pub(crate) fn hides(name: &str) -> bool {
    name == VISIBLE || OTHER_VARIABLES.contains(&name)
}

pub(crate) fn names(slots: &[Slot]) -> Vec<&str> {
    slots.iter().filter_map(|slot| Some(slot.card.as_ref()?.name.as_str())).collect()
}

/// Returns true if `word` names the GPU. Partitions of a GPU have the same PCI address, but different numbers and full
/// names.
fn is_called((number, card): &(usize, &NamedGpu), word: &str) -> bool {
    word == number.to_string()
        || [&card.name, &card.visible].iter().any(|name| name.eq_ignore_ascii_case(word))
}

fn lock(card: &NamedGpu) -> String {
    format!("turn-on-{}", card.name.replace('/', "-"))
}

fn named_gpus(cards: &[Card]) -> Vec<NamedGpu> {
    let several = |bdf: &str| cards.iter().filter(|card| card.bdf == bdf).count() > 1;
    let same = |uuid: &String| cards.iter().filter(|card| card.uuid.as_ref() == Some(uuid)).count();
    let named = cards.iter().enumerate().map(|(number, card)| NamedGpu {
        name: match card.bdf.as_str() {
            "" => format!("GPU {number}"),
            bdf if several(bdf) => format!("{bdf}/{}", card.partition),
            bdf => bdf.to_owned(),
        },
        bdf: card.bdf.clone(),
        visible: card.uuid.clone().filter(|uuid| same(uuid) == 1).unwrap_or(number.to_string()),
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(bdf: &str, partition: u32, uuid: Option<&str>) -> Card {
        let uuid = uuid.map(str::to_owned);
        Card { minor: 128, gfx: "gfx942".to_owned(), bdf: bdf.to_owned(), partition, uuid }
    }

    fn machine() -> [Card; 4] {
        [
            card("0000:03:00.0", 0, Some("GPU-00000000000000aa")),
            card("0000:c5:00.0", 0, None),
            card("0000:43:00.0", 0, Some("GPU-00000000000000bb")),
            card("0000:43:00.0", 1, Some("GPU-00000000000000bb")),
        ]
    }

    fn choose(words: &[&str], variables: &[&str]) -> Result<Vec<Slot>, Stop> {
        let owned =
            |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        chosen_slots(&owned(words), "--cards", &machine(), owned(variables).iter())
    }

    fn visible(slots: &[Slot]) -> Vec<&str> {
        slots.iter().map(|slot| slot.card.as_ref().unwrap().visible.as_str()).collect()
    }

    #[test]
    fn every_name_of_a_gpu_selects_it() {
        let all = choose(&["all"], &[]).unwrap();
        assert_eq!(visible(&all), ["GPU-00000000000000aa", "1", "2", "3"]);
        for (number, names) in [
            (0, ["0", "0000:03:00.0", "gpu-00000000000000AA"]),
            (1, ["1", "0000:C5:00.0", "0000:c5:00.0"]),
            (3, ["3", "0000:43:00.0/1", "3"]),
        ] {
            for name in names {
                assert_eq!(choose(&[name], &[]).unwrap(), all[number..=number]);
            }
        }
        assert_eq!(visible(&choose(&["2", "0"], &[]).unwrap()), ["2", "GPU-00000000000000aa"]);
    }

    #[test]
    fn reports_all_mistakes() {
        let stop = choose(&["4", "0", "all", "0000:43:00.0"], &["HIP_VISIBLE_DEVICES", "HOME"]);
        let text = stop.unwrap_err().to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("`--env HIP_VISIBLE_DEVICES=...` and `--cards`"), "{text}");
        assert!(lines[1].contains("unknown GPU `4`; available are 0 (0000:03:00.0), 1"), "{text}");
        assert!(lines[2].contains("names 0000:03:00.0 twice"), "{text}");
        assert!(lines[3].contains("unknown GPU `0000:43:00.0`"), "{text}");
        assert_eq!(lines.len(), 4);
        let none = chosen_slots(&["all".to_owned()], "ROCREPRO_CARDS", &[], [].iter()).unwrap_err();
        let none = none.to_string();
        assert!(none.starts_with("error: `ROCREPRO_CARDS`: the driver lists no GPU"), "{none}");
        assert!(none.contains("\nhint: run `rocrepro doctor`"), "{none}");
    }

    #[test]
    fn trials_without_choice_take_all_locks() {
        let all = without_choice(&machine(), [].iter()).unwrap();
        let [slot] = &all[..] else { panic!() };
        let each: Vec<_> =
            choose(&["all"], &[]).unwrap().into_iter().flat_map(|s| s.locks).collect();
        assert_eq!((&slot.card, &slot.locks), (&None, &each));
        assert!(each.iter().all(|lock| !lock.contains('/')), "{each:?}");
        let none = without_choice(&[], [].iter()).unwrap();
        assert_eq!(none[0].locks, ["turn-on-the-gpu"]);
    }

    /// The state of a GPU is stored under the name of the GPU that the trial used, even if another one was the first
    /// visible GPU.
    #[test]
    fn trial_is_attributed_to_the_gpu_that_it_used() {
        let all = without_choice(&machine(), [].iter()).unwrap().remove(0);
        let own = |bdf: &str| slot_of_card(&all, &machine(), bdf);
        for first in ["", "0000:03:00.0", "0000:99:00.0"] {
            assert_eq!(own(first), all);
        }
        let second = &choose(&["1"], &[]).unwrap()[0];
        assert_eq!(own("0000:C5:00.0"), *second);
        assert_eq!(slot_of_card(second, &machine(), "0000:03:00.0"), *second);
    }

    #[test]
    fn rejects_variables_that_hide_gpus() {
        let hidden = ["HOME".to_owned(), "HIP_VISIBLE_DEVICES".to_owned()];
        let text = without_choice(&machine(), hidden.iter()).unwrap_err().to_string();
        assert_eq!(text.matches("hides GPUs").count(), 1, "{text}");
        assert!(text.contains("`--env HIP_VISIBLE_DEVICES=...`"), "{text}");
        assert!(without_choice(&machine()[..1], hidden.iter()).is_ok());
    }
}
