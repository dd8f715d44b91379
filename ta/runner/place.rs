//! The list and function that the host of a recipient names: `domain/list/function`.

/// Maximum length of a name, in bytes.
const MAX_NAME_LEN: usize = 255;

/// A list of a domain, and what it is to do with a message.
#[derive(Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub domain: &'a str,
    /// The list; by custom `-` for mail to the list manager itself.
    pub list: &'a str,
    pub function: &'a str,
}

impl<'a> Place<'a> {
    /// Parses the host of a recipient. An error is a text for the sender.
    ///
    /// The names can be used as names of files: none is empty, begins with a dot, or has a slash or
    /// a control character in it.
    pub fn parse(host: &'a [u8], functions: &[String]) -> Result<Place<'a>, String> {
        let text = std::str::from_utf8(host).map_err(|_| "the host is not text".to_string())?;
        let names: Vec<&str> = text.split('/').collect();
        let [domain, list, function] = names[..] else {
            return Err("the host is not of the form domain/list/function".to_string());
        };
        for (what, name) in [("domain", domain), ("list", list), ("function", function)] {
            if !is_name(name) {
                return Err(format!("the {what} in the host is not a name"));
            }
        }
        if !functions.iter().any(|known| known.eq_ignore_ascii_case(function)) {
            return Err(format!("{function} is not a function of lists here"));
        }
        Ok(Place { domain, list, function })
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_NAME_LEN
        && !name.starts_with('.')
        && !name.contains(|c: char| c.is_control() || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_three_names_and_a_known_function() {
        let functions = ["list".to_string(), "owner".to_string()];
        let parse = |host: &'static [u8]| Place::parse(host, &functions);
        let place = Place { domain: "x.test", list: "talk", function: "owner" };
        assert_eq!(parse(b"x.test/talk/owner"), Ok(place));
        for (host, why) in [
            (&b"x.test"[..], "the host is not of the form domain/list/function"),
            (b"x.test/talk/list/more", "the host is not of the form domain/list/function"),
            (b"x.test/../list", "the list in the host is not a name"),
            (b"/talk/list", "the domain in the host is not a name"),
            (b"x.test/a\tb/list", "the list in the host is not a name"),
            (b"x.test/talk/", "the function in the host is not a name"),
            (b"x.test/talk/steal", "steal is not a function of lists here"),
            (b"x.test/\xff/list", "the host is not text"),
        ] {
            assert_eq!(parse(host), Err(why.to_string()), "{host:?}");
        }
    }
}
