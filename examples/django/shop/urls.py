"""The addresses of the shop."""

from django.urls import path
from orders import views

urlpatterns = [path("orders/<str:customer>", views.place), path("orders/<int:number>/pay", views.pay)]
