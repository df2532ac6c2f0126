//! Checks of a container's ports: invalid numbers, duplicates, and invalid names.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::ContainerPort;

use crate::manifest::field_error::FieldError;

const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

/// Most characters of a port's name.
const LONGEST_NAME: usize = 15;

/// Returns the errors in the ports of a container, with their fields below it.
pub(super) fn errors(ports: &[ContainerPort]) -> Vec<FieldError> {
    let (mut names, mut numbers, mut errors) = (HashSet::new(), HashSet::new(), Vec::new());
    for (i, port) in ports.iter().enumerate() {
        // Zero means no host port, as in Kubernetes.
        let host = port.host_port.filter(|number| *number != 0);
        let found = [
            ("containerPort", number(port.container_port)),
            ("hostPort", host.and_then(number)),
            ("protocol", protocol(port)),
            ("name", name(port)),
            ("name", same_name(port, &mut names)),
            ("containerPort", same_number(port, &mut numbers)),
        ];
        for (field, message) in found {
            let field = format!("ports[{i}].{field}");
            errors.extend(message.map(|message| FieldError::new(field, message)));
        }
    }
    errors
}

/// Returns a message if a number is not a port; None if it is one.
pub(super) fn number(number: i32) -> Option<String> {
    let is_port = (1..=65535).contains(&number);
    (!is_port).then(|| format!("{number} is no port: write a number from 1 to 65535"))
}

fn protocol(port: &ContainerPort) -> Option<String> {
    let protocol = port.protocol.as_deref().filter(|text| !text.is_empty())?;
    let is_known = PROTOCOLS.contains(&protocol);
    (!is_known).then(|| format!("`{protocol}` is no protocol of a port: write TCP, UDP or SCTP"))
}

fn name(port: &ContainerPort) -> Option<String> {
    let name = port.name.as_deref().filter(|name| !name.is_empty())?;
    (!is_name(name)).then(|| {
        format!(
            "`{name}` is no name of a port: write at most {LONGEST_NAME} of a-z, 0-9 and single `-` \
             between them, one letter at least"
        )
    })
}

fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        !part.is_empty() && part.chars().all(is_inner)
    };
    let has_letter = name.contains(|c: char| c.is_ascii_lowercase());
    name.len() <= LONGEST_NAME && has_letter && name.split('-').all(is_part)
}

/// Returns a message if a port's name was used before; adds the name to those used.
fn same_name<'a>(port: &'a ContainerPort, before: &mut HashSet<&'a str>) -> Option<String> {
    let name = port.name.as_deref().filter(|name| !name.is_empty())?;
    let is_twice = !before.insert(name);
    is_twice.then(|| format!("two ports are called {name}: rename or remove one"))
}

/// Returns a message if a port's number was used before with its protocol; adds it to those used.
fn same_number<'a>(port: &'a ContainerPort, before: &mut HashSet<(i32, &'a str)>) -> Option<String> {
    let number = port.container_port;
    let is_twice = !before.insert((number, protocol_of(port)));
    is_twice.then(|| format!("the port {number} is written twice: remove one"))
}

fn protocol_of(port: &ContainerPort) -> &str {
    let written = port.protocol.as_deref().filter(|text| !text.is_empty());
    written.unwrap_or(PROTOCOLS[0])
}
