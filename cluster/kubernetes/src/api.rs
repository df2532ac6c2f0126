//! Requests to the API server whose failures are returned as [`ClusterError`].

use std::collections::BTreeMap;

use k8s_openapi::NamespaceResourceScope;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use weir_cluster::{ClusterError, ServiceName};

use crate::error;
use crate::objects::selector;

/// Returns the object of this name, or None if there is none.
pub(crate) async fn find<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ClusterError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.get_opt(name).await.map_err(|e| error::of(name, e))
}

/// Returns the objects of a service by name.
pub(crate) async fn of_service<K>(api: &Api<K>, service: &ServiceName) -> Result<BTreeMap<String, K>, ClusterError>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let of_service = ListParams::default().labels(&selector(service));
    let objects = api.list(&of_service).await;
    let objects = objects.map_err(|e| error::of(service, e))?;
    Ok(objects.into_iter().map(|object| (object.name_any(), object)).collect())
}

/// Applies a whole object (server-side apply) as this field manager.
pub(crate) async fn put<K>(api: &Api<K>, object: &K, name: &str, manager: &str) -> Result<K, ClusterError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    put_value(api, &applied_form(object, name)?, name, manager).await
}

/// Returns an object in the form in which it is applied, with its apiVersion and kind.
pub(crate) fn applied_form<K>(object: &K, name: &str) -> Result<Value, ClusterError>
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut value = serde_json::to_value(object).map_err(|e| error::unwritable(name, e))?;
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    Ok(value)
}

/// Applies exactly the fields of the value (server-side apply, forced): changes that another manager made to them are
/// overwritten.
pub(crate) async fn put_value<K>(api: &Api<K>, value: &Value, name: &str, manager: &str) -> Result<K, ClusterError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = PatchParams::apply(manager).force();
    let stored = api.patch(name, &params, &Patch::Apply(value)).await;
    stored.map_err(|e| error::of(name, e))
}

/// Deletes an object, and in the background the objects it owns. A missing object is no error.
pub(crate) async fn remove<K>(api: &Api<K>, name: &str) -> Result<(), ClusterError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(error) if error::is_not_found(&error) => Ok(()),
        Err(error) => Err(error::of(name, error)),
    }
}
