// Package controller makes Websites: for each a ConfigMap with its page, and a Deployment whose pods serve it.
package controller

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	webv1 "example.com/websites/api/v1"
)

const workers = 5

// WebsiteReconciler reconciles Websites.
type WebsiteReconciler struct {
	client.Client
}

// +kubebuilder:rbac:groups=web.example.com,resources=websites,verbs=get;list;watch
// +kubebuilder:rbac:groups=web.example.com,resources=websites/status,verbs=get;update
// +kubebuilder:rbac:groups=web.example.com,resources=websites/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update

// SetupWithManager registers the controller.
func (r *WebsiteReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&webv1.Website{}).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(r)
}

// Reconcile makes what a Website lacks, and writes its status where that has changed.
func (r *WebsiteReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	site := &webv1.Website{}
	if err := r.Get(ctx, req.NamespacedName, site); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !site.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, page, func() error {
		page.Data = map[string]string{"index.html": site.Spec.Page}
		return controllerutil.SetControllerReference(site, page, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	server := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: site.Name, Namespace: site.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, r.Client, server, func() error {
		fill(server, site)
		return controllerutil.SetControllerReference(site, server, r.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.updateStatus(ctx, site, server)
}

func (r *WebsiteReconciler) updateStatus(ctx context.Context, site *webv1.Website, server *appsv1.Deployment) error {
	before := site.Status.DeepCopy()
	site.Status.AvailableReplicas = server.Status.AvailableReplicas
	site.Status.ObservedGeneration = site.Generation
	available := metav1.Condition{
		Type: webv1.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "Starting",
		ObservedGeneration: site.Generation,
	}
	if server.Status.AvailableReplicas == site.Spec.Replicas {
		available.Status, available.Reason = metav1.ConditionTrue, "AllReplicasServe"
	}
	meta.SetStatusCondition(&site.Status.Conditions, available)
	if equality.Semantic.DeepEqual(before, &site.Status) {
		return nil
	}
	return r.Status().Update(ctx, site)
}

// fill sets what this controller decides, and leaves the API server's defaults as they are.
func fill(server *appsv1.Deployment, site *webv1.Website) {
	labels := map[string]string{"app.kubernetes.io/name": "website", "app.kubernetes.io/instance": site.Name}
	server.Labels = labels
	server.Spec.Replicas = &site.Spec.Replicas
	server.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	server.Spec.Template.Labels = labels
	pod := &server.Spec.Template.Spec
	if len(pod.Containers) == 0 {
		pod.Containers = []corev1.Container{{Name: "web"}}
		pod.Volumes = []corev1.Volume{{Name: "page"}}
	}
	container := &pod.Containers[0]
	container.Image = site.Spec.Image
	container.Ports = []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
	container.VolumeMounts = []corev1.VolumeMount{{Name: "page", MountPath: "/srv"}}
	if pod.Volumes[0].ConfigMap == nil {
		pod.Volumes[0].ConfigMap = &corev1.ConfigMapVolumeSource{}
	}
	pod.Volumes[0].ConfigMap.Name = site.Name
}
