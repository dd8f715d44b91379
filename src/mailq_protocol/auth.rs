//! The response to the challenge of `AUTH`, the login that ZMailer has.

/// Returns the MD5 sum of a challenge line and a password, in lower-case hexadecimal.
pub fn response(challenge: &[u8], password: &[u8]) -> String {
    let mut context = md5::Context::new();
    context.consume(challenge);
    context.consume(password);
    format!("{:x}", context.finalize())
}
