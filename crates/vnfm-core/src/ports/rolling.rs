//! In which batches a change replaces VNFCs, as `additionalParams.vnfm_rolling` of the request has it.

use serde::Deserialize;
use std::num::NonZeroU32;
use std::time::Duration;
use vnfm_types::KeyValuePairs;

/// Member of `additionalParams`. It is for the VNFM: hooks do not get it, and the instance does not retain it.
pub const ROLLING_PARAM: &str = "vnfm_rolling";
/// Upper bound of the pause between two batches.
const MAX_PAUSE: Duration = Duration::from_hours(1);

/// How many VNFCs change at a time, and the pause between two batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    /// Number of VNFCs in a batch.
    pub parallel: NonZeroU32,
    /// Between the end of a batch, whose VNFCs work again, and the next one.
    pub pause: Duration,
}

impl Default for Rolling {
    fn default() -> Self {
        Self {
            parallel: NonZeroU32::MIN,
            pause: Duration::ZERO,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default = "one")]
    parallel: NonZeroU32,
    #[serde(default)]
    pause_seconds: u32,
}

const fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Rolling {
    /// What `additionalParams` ask for; `None` if they do not say.
    ///
    /// # Errors
    ///
    /// The member that is not understood, or too long a pause.
    pub fn requested(additional_params: Option<&KeyValuePairs>) -> Result<Option<Self>, String> {
        let Some(given) = additional_params.and_then(|params| params.get(ROLLING_PARAM)) else {
            return Ok(None);
        };
        let given = Given::deserialize(given);
        let given = given.map_err(|error| format!("additionalParams.{ROLLING_PARAM}: {error}"))?;
        let pause = Duration::from_secs(given.pause_seconds.into());
        if pause > MAX_PAUSE {
            let most = MAX_PAUSE.as_secs();
            return Err(format!(
                "additionalParams.{ROLLING_PARAM}.pause_seconds is more than {most}"
            ));
        }
        let parallel = given.parallel;
        Ok(Some(Self { parallel, pause }))
    }
}

#[cfg(test)]
mod tests {
    use super::Rolling;
    use serde_json::{Value, json};

    fn read(rolling: &Value) -> Result<Option<Rolling>, String> {
        let params = json!({ "vnfm_rolling": rolling });
        Rolling::requested(params.as_object())
    }

    #[test]
    fn batches_and_pause_have_defaults_and_limits() {
        assert_eq!(Rolling::requested(json!({}).as_object()), Ok(None));
        assert_eq!(read(&json!({})), Ok(Some(Rolling::default())));
        let both = read(&json!({"parallel": 2, "pause_seconds": 5}))
            .unwrap()
            .unwrap();
        assert_eq!((both.parallel.get(), both.pause.as_secs()), (2, 5));
        for (bad, member) in [
            (json!({"parallel": 0}), "vnfm_rolling"),
            (json!({"paralel": 1}), "paralel"),
            (json!({"pause_seconds": 3601}), "more than 3600"),
            (json!({"pause_seconds": -1}), "vnfm_rolling"),
            (json!(2), "vnfm_rolling"),
        ] {
            let error = read(&bad).unwrap_err();
            assert!(error.contains(member), "{bad}: {error}");
        }
    }
}
