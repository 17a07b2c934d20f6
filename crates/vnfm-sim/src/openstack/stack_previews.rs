//! What Heat tells before it creates anything: the resources of a template, and the properties of a resource type.

use serde_json::{Map, Value, json};

use super::heat::{Answer, Heat, error};
use super::preview::{check, resources};
use super::stack_requests::environment;
use super::types;
use crate::http::{Reply, Request};

impl Heat {
    /// What a creation would create; nothing is.
    pub(super) fn preview(&self, request: &Request) -> Answer {
        self.0.authenticate(request)?;
        let body = request.json();
        let (around, parameters) = environment(&body)?;
        check(&self.0.state(), &body["template"], &parameters, &around)
            .map_err(|wrong| self.refuse(&wrong))?;
        let resources = resources(&body["template"], &parameters, (&around, None))
            .map_err(|wrong| self.refuse(&wrong))?;
        let stack =
            json!({ "stack_name": body["stack_name"], "id": "None", "resources": resources });
        Ok(Reply::json(200, &json!({ "stack": stack })))
    }

    /// The properties of a type, and whether they change in place.
    pub(super) fn resource_type(&self, request: &Request, kind: &str) -> Answer {
        self.0.authenticate(request)?;
        let Some(known) = types::known(kind) else {
            let message = format!("The Resource Type ({kind}) could not be found.");
            return Err(error(404, "EntityNotFound", &message));
        };
        let schema = |name: &str| {
            let in_place = types::changes_in_place(kind, name);
            (
                name.to_owned(),
                json!({ "update_allowed": in_place, "immutable": false }),
            )
        };
        let properties: Map<String, Value> = known.properties().map(schema).collect();
        let body = json!({ "resource_type": kind, "properties": properties, "attributes": {} });
        Ok(Reply::json(200, &body))
    }
}
