// Package v1 validates Websites before the API server stores them.
package v1

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webv1 "example.com/websites/api/v1"
)

const mostReplicas = 100

// SetupWebsiteWebhookWithManager registers the webhook.
func SetupWebsiteWebhookWithManager(mgr ctrl.Manager) error {
	return ctrl.NewWebhookManagedBy(mgr, &webv1.Website{}).WithValidator(&websiteValidator{}).Complete()
}

type websiteValidator struct{}

func (*websiteValidator) ValidateCreate(_ context.Context, site *webv1.Website) (admission.Warnings, error) {
	return nil, validate(site)
}

func (*websiteValidator) ValidateUpdate(_ context.Context, _, site *webv1.Website) (admission.Warnings, error) {
	return nil, validate(site)
}

func (*websiteValidator) ValidateDelete(context.Context, *webv1.Website) (admission.Warnings, error) {
	return nil, nil
}

func validate(site *webv1.Website) error {
	if site.Spec.Replicas > mostReplicas {
		return fmt.Errorf("spec.replicas: %d is more than %d", site.Spec.Replicas, mostReplicas)
	}
	return nil
}
