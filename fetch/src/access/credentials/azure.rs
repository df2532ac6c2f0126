//! Settings of Azure Blob Storage.

use super::{Access, CredentialKind, Values, canonical, first};

/// Settings for the containers of one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AzureSettings {
    pub(crate) identity: AzureIdentity,
    /// URL of the account, for an emulator or a private endpoint; `None` for the URL that the URI names.
    pub(crate) endpoint: Option<String>,
    /// Host that issues tokens; `None` for Azure's public cloud.
    pub(crate) authority: Option<String>,
    /// Client ID of the machine identity to use; `None` if the machine has only one.
    pub(crate) machine: Option<String>,
}

/// Proof of identity for Azure.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum AzureIdentity {
    /// The key of the account.
    AccessKey(String),
    /// A shared access signature.
    Signature(String),
    /// A service principal with a secret.
    Client { tenant: String, id: String, secret: String },
    /// The token of a ServiceAccount, exchanged for an application (workload identity).
    Workload { tenant: String, id: String, file: String },
    /// Nothing is given: requests carry no token, unless the container is private and the machine has an identity.
    Unknown,
}

impl std::fmt::Debug for AzureIdentity {
    /// Shows the kind of proof without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::AccessKey(_) => "AccessKey",
            Self::Signature(_) => "Signature",
            Self::Client { .. } => "Client",
            Self::Workload { .. } => "Workload",
            Self::Unknown => "Unknown",
        })
    }
}

/// Names by which `storage-config`, Secrets and variables give a setting.
const NAMES: [(&str, &[&str]); 8] = [
    ("key", &["AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_KEY", "access_key"]),
    ("signature", &["AZURE_STORAGE_SAS_TOKEN", "sas_token"]),
    ("tenant", &["AZURE_TENANT_ID", "AZ_TENANT_ID", "az_tenant_id"]),
    ("id", &["AZURE_CLIENT_ID", "AZ_CLIENT_ID", "az_client_id"]),
    ("secret", &["AZURE_CLIENT_SECRET", "AZ_CLIENT_SECRET", "az_client_secret"]),
    ("file", &["AZURE_FEDERATED_TOKEN_FILE"]),
    ("endpoint", &["AZURE_STORAGE_ENDPOINT"]),
    ("authority", &["AZURE_AUTHORITY_HOST"]),
];

impl AzureSettings {
    /// Decides the settings: `model.storage` before mounted Secrets, and these before variables.
    ///
    /// # Errors
    /// A clause with the name of the variable that is not valid.
    pub(crate) fn of(access: &Access) -> Result<Self, String> {
        let [parameters, entry] = access.storage_config()?;
        let secret = access.secret(CredentialKind::Azure).cloned().unwrap_or_default();
        let layers = [parameters, entry, secret, access.variables.clone()].map(|layer| canonical(&NAMES, &layer));
        Ok(Self {
            identity: layers.iter().find_map(of_layer).or_else(|| workload(&layers)).unwrap_or(AzureIdentity::Unknown),
            endpoint: first(&layers, "endpoint").map(str::to_owned),
            authority: first(&layers, "authority").map(str::to_owned),
            machine: first(&layers, "id").map(str::to_owned),
        })
    }
}

/// Returns the identity that one layer gives. The parts are never mixed from several layers.
fn of_layer(layer: &Values) -> Option<AzureIdentity> {
    let get = |name: &str| layer.get(name).cloned();
    if let Some(key) = get("key") {
        return Some(AzureIdentity::AccessKey(key));
    }
    if let Some(signature) = get("signature") {
        return Some(AzureIdentity::Signature(signature));
    }
    Some(AzureIdentity::Client { tenant: get("tenant")?, id: get("id")?, secret: get("secret")? })
}

/// Returns the workload identity, whose parts the cluster writes into the pod's variables.
fn workload(layers: &[Values]) -> Option<AzureIdentity> {
    let get = |name: &str| first(layers, name).map(str::to_owned);
    Some(AzureIdentity::Workload { tenant: get("tenant")?, id: get("id")?, file: get("file")? })
}

#[cfg(test)]
mod tests {
    use super::super::tests::values;
    use super::*;

    fn identity(variables: &[(&str, &str)]) -> AzureIdentity {
        AzureSettings::of(&Access::of(values(variables))).unwrap().identity
    }

    #[test]
    fn each_name_of_a_setting_is_known() {
        for (name, aliases) in NAMES {
            for alias in aliases {
                assert_eq!(canonical(&NAMES, &values(&[(alias, "x")])), values(&[(name, "x")]), "{alias}");
            }
        }
    }

    #[test]
    fn identities_are_found() {
        let client = |prefix: &str| {
            let names = ["TENANT_ID", "CLIENT_ID", "CLIENT_SECRET"].map(|name| format!("{prefix}_{name}"));
            identity(&[(&names[0], "t"), (&names[1], "c"), (&names[2], "s")])
        };
        let expected = AzureIdentity::Client { tenant: "t".to_owned(), id: "c".to_owned(), secret: "s".to_owned() };
        assert_eq!((client("AZ"), client("AZURE")), (expected.clone(), expected));
        let workload = [("AZURE_TENANT_ID", "t"), ("AZURE_CLIENT_ID", "c"), ("AZURE_FEDERATED_TOKEN_FILE", "/f")];
        assert!(matches!(identity(&workload), AzureIdentity::Workload { .. }));
        assert_eq!(identity(&[("AZURE_STORAGE_ACCESS_KEY", "k")]), AzureIdentity::AccessKey("k".to_owned()));
        assert_eq!(identity(&[("AZURE_STORAGE_SAS_TOKEN", "s")]), AzureIdentity::Signature("s".to_owned()));
        assert_eq!(identity(&[("AZ_CLIENT_ID", "c")]), AzureIdentity::Unknown);
    }

    #[test]
    fn a_secret_precedes_variables() {
        let mut access = Access::of(values(&[("AZURE_STORAGE_ACCESS_KEY", "variable")]));
        access.secrets.insert("az".to_owned(), values(&[("AZURE_STORAGE_ACCESS_KEY", "secret")]));
        let found = AzureSettings::of(&access).unwrap();
        assert_eq!(found.identity, AzureIdentity::AccessKey("secret".to_owned()));
    }
}
