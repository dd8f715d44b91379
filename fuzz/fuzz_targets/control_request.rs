#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (zsched_fuzz::find("control_request").run)(bytes));
