//! Tests the page with the decision about each field.

use prost_reflect::DescriptorPool;
use weir_protocol::grpc::proto::FILE_DESCRIPTOR_SET;

const PAGE: &str = include_str!("../../../../../docs/model-configuration.md");

/// Messages with a decision for each field; other messages have one decision each.
const MESSAGES: [&str; 7] = [
    "ModelConfig",
    "ModelInput",
    "ModelOutput",
    "ModelInstanceGroup",
    "ModelDynamicBatching",
    "ModelQueuePolicy",
    "ModelTransactionPolicy",
];

#[test]
fn every_field_has_its_decision() {
    let pool = DescriptorPool::decode(FILE_DESCRIPTOR_SET).unwrap();
    for message in MESSAGES {
        let name = format!("inference.{message}");
        for field in pool.get_message_by_name(&name).unwrap().fields() {
            assert!(PAGE.contains(field.name()), "{message}.{}", field.name());
        }
    }
}
