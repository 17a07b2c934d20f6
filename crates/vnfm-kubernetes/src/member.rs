//! The members of a request's `additionalParams` that we read ourselves. Errors name the member, never its value, which may be
//! secret.

use crate::errors::PARAMETER;
use serde_json::Value;
use vnfm_core::ports::PortError;
use vnfm_descriptor::type_of;
use vnfm_types::KeyValuePairs;

/// A value of the request with its path.
#[derive(Clone)]
pub(crate) struct Member<'a> {
    path: String,
    value: &'a Value,
}

impl<'a> Member<'a> {
    /// A parameter of the request; `None` if it is absent or null.
    pub(crate) fn of_request(params: &'a KeyValuePairs, name: &str) -> Option<Self> {
        let value = params.get(name).filter(|value| !value.is_null())?;
        let path = format!("additionalParams.{name}");
        Some(Self { path, value })
    }

    /// The value as the request has it.
    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// # Errors
    ///
    /// It is not text, or empty.
    pub(crate) fn text(&self) -> Result<&'a str, PortError> {
        let text = self.value.as_str().ok_or_else(|| self.mismatch("text"))?;
        if text.is_empty() {
            return Err(self.refused("it is empty"));
        }
        Ok(text)
    }

    /// # Errors
    ///
    /// It is not a list.
    pub(crate) fn items(&self) -> Result<Vec<Member<'a>>, PortError> {
        let items = self
            .value
            .as_array()
            .ok_or_else(|| self.mismatch("a list"))?;
        let items = items.iter().enumerate();
        let item = |(index, value)| Member {
            path: format!("{}[{index}]", self.path),
            value,
        };
        Ok(items.map(item).collect())
    }

    /// Whether it is true, as a boolean or as text.
    ///
    /// # Errors
    ///
    /// It is neither true nor false.
    pub(crate) fn is_true(&self) -> Result<bool, PortError> {
        match self.value {
            Value::Bool(value) => Ok(*value),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(self.refused("it is neither `true` nor `false`")),
        }
    }

    /// Its members with their names; those that are null are left out.
    ///
    /// # Errors
    ///
    /// It is not an object.
    pub(crate) fn members(&self) -> Result<Vec<(&'a str, Member<'a>)>, PortError> {
        let mut members = self.all_members()?;
        members.retain(|(_, member)| !member.value.is_null());
        Ok(members)
    }

    /// Its members with their names, also those that are null.
    ///
    /// # Errors
    ///
    /// It is not an object.
    pub(crate) fn all_members(&self) -> Result<Vec<(&'a str, Member<'a>)>, PortError> {
        let members = self.value.as_object();
        let members = members.ok_or_else(|| self.mismatch("an object"))?.iter();
        let member = |(name, value): (&'a String, &'a Value)| {
            let path = format!("{}.{name}", self.path);
            (name.as_str(), Member { path, value })
        };
        Ok(members.map(member).collect())
    }

    /// One of its members; `None` if it is absent or null.
    ///
    /// # Errors
    ///
    /// It is not an object.
    pub(crate) fn member(&self, name: &str) -> Result<Option<Member<'a>>, PortError> {
        let members = self.members()?.into_iter();
        Ok(members
            .filter(|(own, _)| *own == name)
            .map(|(_, member)| member)
            .next())
    }

    /// One of its members, which is text.
    ///
    /// # Errors
    ///
    /// It is not an object, or lacks the member, or that is not text.
    pub(crate) fn text_of(&self, name: &str) -> Result<&'a str, PortError> {
        let missing = || self.refused(format!("it has no `{name}`"));
        self.member(name)?.ok_or_else(missing)?.text()
    }

    /// The error that this member cannot be used.
    pub(crate) fn refused(&self, reason: impl Into<String>) -> PortError {
        PortError::new(&PARAMETER, format!("use `{}`", self.path), reason).on(&*self.path)
    }

    fn mismatch(&self, wanted: &str) -> PortError {
        let given = type_of(self.value);
        self.refused(format!(
            "it must be {wanted}, but the request gives {given}"
        ))
    }
}
