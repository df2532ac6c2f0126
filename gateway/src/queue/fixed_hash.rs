//! A hash that is the same at every gateway and with every compiler: 64-bit FNV-1a with the finalizer of `MurmurHash3`.
//!
//! FNV-1a alone hardly mixes its last bytes into the high bits, by which owners are compared; the finalizer does.
//! Neither part may ever change, because gateways of two versions run side by side during an upgrade.

/// FNV's offset basis and prime for 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Byte that ends each part and occurs in no UTF-8 text, so that the parts `ab`, `c` differ from `a`, `bc`.
const END: u8 = 0xff;

/// Returns the hash of a sequence of texts.
pub(super) fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.bytes().chain([END]));
    let fnv = bytes.fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    finalized(fnv)
}

fn finalized(mut hash: u64) -> u64 {
    for factor in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_never_changes() {
        let golden = [
            (&[][..], 0xefd0_1f60_ba99_2926),
            (&[""], 0x1bbd_5c81_3c69_a8d7),
            (&["a"], 0x3aec_69d2_86fb_d39b),
            (&["ab", "c"], 0x04f3_60e5_0ae8_8219),
            (&["a", "bc"], 0x0b1a_b3f8_db79_4b96),
            (&["weir-gateway-7d9f-x2x4q", "digits-predictor-00001"], 0x42f9_2808_afcb_cd51),
        ];
        for (parts, expected) in golden {
            assert_eq!(of(parts.iter().copied()), expected, "{parts:?}");
        }
    }

    #[test]
    fn gateways_own_even_shares() {
        let gateways = ["gateway-0", "gateway-1", "gateway-2", "gateway-3"];
        let mut owned = [0; 4];
        for number in 0..4000 {
            let revision = format!("s{number}-predictor-00001");
            let scores = gateways.map(|gateway| of([gateway, &revision]));
            let owner = (0..4).max_by_key(|at| scores[*at]).unwrap();
            owned[owner] += 1;
        }
        assert!(owned.iter().all(|count| (900..1100).contains(count)), "{owned:?}");
    }
}
