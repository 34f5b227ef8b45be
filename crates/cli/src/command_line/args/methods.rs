//! How the options name methods: one, several in a list, or a parameter of one that has a flag of its own.

use crate::MethodInfo;

/// The parser of a flag that is a parameter of a method: the limits are those of the parameter.
///
/// # Panics
///
/// If the method has no such parameter.
pub(crate) fn parameter(
    method: &'static str,
    name: &'static str,
) -> impl Fn(&str) -> Result<String, String> + Clone + Send + Sync + 'static {
    let parameter = MethodInfo::find(method).and_then(|row| row.parameter(name));
    let kind = &parameter.unwrap_or_else(|| panic!("{method} has no parameter {name}")).kind;
    move |value| kind.check(value).map(|()| value.to_owned())
}

/// The name of a method without its parameters.
pub(crate) fn name(text: &str) -> &str {
    text.split(':').next().unwrap_or_default().trim()
}

/// The texts of the methods in a list. A comma joins methods and parameters alike; a part that names no method is a
/// parameter of the method before it, if that has any.
pub(crate) fn list(text: &str) -> Vec<String> {
    let mut methods: Vec<String> = Vec::new();
    for part in text.split(',') {
        match methods.last_mut() {
            Some(last) if last.contains(':') && MethodInfo::find(name(part)).is_none() => {
                last.push(',');
                last.push_str(part);
            }
            _ => methods.push(part.trim().to_owned()),
        }
    }
    methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_methods_keeps_their_parameters() {
        assert_eq!(list("masked,smc:n=10,twisted,cars"), ["masked", "smc:n=10,twisted", "cars"]);
        assert_eq!(list("mentored:kl=0.1,disc:k=3"), ["mentored:kl=0.1", "disc:k=3"]);
        assert_eq!(list("masked,fair"), ["masked", "fair"]);
    }
}
