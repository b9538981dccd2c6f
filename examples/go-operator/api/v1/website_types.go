package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ConditionAvailable is true while all replicas of a Website serve.
const ConditionAvailable = "Available"

// WebsiteSpec says what is served, and by how many pods.
type WebsiteSpec struct {
	// Image of the web server.
	Image string `json:"image"`
	// Replicas is the number of pods.
	Replicas int32 `json:"replicas"`
	// Page is the text that is served.
	Page string `json:"page,omitempty"`
}

// WebsiteStatus is what the controller has observed.
type WebsiteStatus struct {
	AvailableReplicas  int32              `json:"availableReplicas"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Website is a page, served by the pods of a Deployment.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WebsiteSpec   `json:"spec"`
	Status WebsiteStatus `json:"status,omitempty"`
}

// WebsiteList is a list of Websites.
type WebsiteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Website `json:"items"`
}
